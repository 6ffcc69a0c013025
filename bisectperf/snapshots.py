"""Two snapshots of a host, held against each other: what differs, likeliest cause first, and why it would matter."""

import re
from collections.abc import Mapping

import msgspec

_CAUSES = tuple(
    (re.compile(pattern), why)
    for pattern, why in (
        (r"gpu \d+ (model|uuid|MIG|compute mode)", "another GPU, or another part of one"),
        (r"gpu \d+ (power limit|application clock|highest clock)", "bounds the clocks under load"),
        (r"gpu \d+ (link|ECC|persistence|vbios)|GPU links", "bounds transfers or memory of the GPU"),
        (r"driver|CUDA of the driver", "runs every kernel and every transfer"),
        (r"variable (NCCL|CUDA|HIP|ROCR|RCCL|OMP|MKL|TORCH|TRITON|VLLM|SGLANG|PYTORCH)", "steers the libraries"),
        (r"loaded lib(nccl|rccl|cuda|cublas|cudnn)", "the library that was in force, whatever is installed"),
        (r"arguments", "the server was started in another way"),
        (r"package (torch|triton|flashinfer|sgl|sglang|vllm|nvidia|xformers|flash)", "holds the kernels that run"),
        (r"digest of ", "configuration that the launch reads"),
        (r"loaded ", "a library that was in force"),
        (r"cpu|NUMA|memory|transparent huge", "bounds the host's share of each step"),
        (r"kernel|system|machine|container", "the system below"),
        (r"package |python", "an installed package"),
        (r"variable ", "a variable in force"),
    )
)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One fact that is not the same; an empty text is a fact that one side does not have."""

    name: str
    before: str
    after: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before or 'absent'} -> {self.after or 'absent'} ({self.why})"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """Return what differs, likeliest cause of a change of speed first."""
    found = []
    for name in before.keys() | after.keys():
        if before.get(name, "") != after.get(name, ""):
            place, why = _cause(name)
            one = Difference(name=name, before=before.get(name, ""), after=after.get(name, ""), why=why)
            found.append((place, name, one))
    return [one for _, _, one in sorted(found, key=lambda x: x[:2])]


def _cause(name: str) -> tuple[int, str]:
    for place, (pattern, why) in enumerate(_CAUSES):
        if pattern.match(name):
            return place, why
    return len(_CAUSES), "not known to matter"
