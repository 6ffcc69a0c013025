"""Secrets are kept out of whatever is written: by name, by value, by shape."""

import pytest

from bisectperf.events import Voided
from bisectperf.masking import Masking, looks_secret, secrets_of


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "db_password", "GITHUB_TOKEN"]
)
def test_names_that_say_so(name):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["PATH", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM", "MONKEY", "PASSENGER_COUNT", "LANG"]
)
def test_names_that_do_not(name):
    assert not looks_secret(name)


def test_values_by_name_or_list_and_no_short_ones_or_paths():
    environment = {
        "HF_TOKEN": "a'; touch x;",
        "WANDB_BASE": "internal-base",
        "MY_KEY": "short",
        "SSH_KEY": "/srv/me/.ssh/id",
        "LANG": "en_US.UTF-8",
    }
    assert secrets_of(environment, ["WANDB_BASE"]).keys() == {"HF_TOKEN", "WANDB_BASE"}


def test_the_longest_value_goes_first():
    masking = Masking({"A_TOKEN": "abcdef", "B_TOKEN": "abcdefgh"})
    assert masking.text("see abcdefgh and abcdef.") == "see <B_TOKEN> and <A_TOKEN>."


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        ("401 for hf_abcdefghijklmnopqrstuvwx at the hub", "hf_abc", "at the hub"),
        ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30", "eyJ", "Bearer"),
        ("clone https://me:pa55word@example.org/x failed", "pa55word", "example.org/x"),
        ("export WANDB_API_KEY=0123456789abcdef", "0123456789abcdef", "WANDB_API_KEY="),
        ("MY_PASSWORD: hunter22", "hunter22", "MY_PASSWORD"),
    ],
)
def test_texts_with_the_shape_of_a_secret(text, gone, kept):
    masked = Masking({}).text(text)
    assert gone not in masked
    assert kept in masked


@pytest.mark.parametrize(
    "text", ["key=value pairs are fine", "request_tok_s 12.5 tok/s", "KeyError: 'x'", "8f3a9c1d2 (layers: a cache)"]
)
def test_ordinary_texts_stay(text):
    assert Masking({"HF_TOKEN": "secret-value"}).text(text) == text


def test_every_text_of_a_fact_is_masked_and_it_stays_that_fact():
    fact = Voided(at=1.0, launch="L0001", kind="flaky", reason="no access: secret-value", detail="x\nsecret-value")
    masked = Masking({"HF_TOKEN": "secret-value"}).struct(fact)
    assert masked == Voided(
        at=1.0, launch="L0001", kind="flaky", reason="no access: <HF_TOKEN>", detail="x\n<HF_TOKEN>"
    )
