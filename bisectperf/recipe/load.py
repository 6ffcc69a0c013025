"""Find a recipe, read it, refuse what is wrong with it in one sentence, and take its digest."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bisectperf.errors import UserError
from bisectperf.recipe.check import PLACEHOLDER, check
from bisectperf.recipe.schema import Recipe

LOCAL = "bisectperf.local.toml"


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe with its folder, the files it copies (name on the host -> bytes) and the digest of it all."""

    recipe: Recipe
    folder: Path
    path: Path
    files: dict[str, bytes]
    digest: str


def shipped() -> Path:
    """Return the folder of the recipes that come with the package."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_recipes"
    return inside if inside.is_dir() else package.parent / "recipes"


def locate(word: str) -> Path:
    """Return the recipe file that `word` names: a file, a folder with a recipe.toml, or a shipped recipe."""
    given = Path(word).expanduser()
    for path in (given, given / "recipe.toml", shipped() / word / "recipe.toml"):
        if path.is_file():
            return path.resolve()
    names = sorted(p.parent.name for p in shipped().glob("*/recipe.toml"))
    raise UserError(
        f"there is no recipe '{word}': no such file, no such folder with a recipe.toml, no shipped recipe",
        hint=f"shipped are: {', '.join(names)}" if names else "give the path of a recipe.toml with --recipe",
    )


def load(path: Path, settings: Mapping[str, str] | None = None) -> Loaded:
    """Return the recipe at `path` with `bisectperf.local.toml` and `settings` (params) laid over it.

    Raises `UserError` naming the file, the line and the key for a wrong key, type, placeholder or missing file.
    """
    text = _read(path)
    raw = _parse(path, text)
    local = path.parent / LOCAL
    if local.is_file():
        _lay_over(raw, _parse(local, _read(local)), local)
    for key, value in (settings or {}).items():
        params = raw.setdefault("params", {})
        if key not in params:
            raise UserError(
                f"--set {key}: the recipe {path} has no parameter '{key}'",
                hint=f"it has: {', '.join(sorted(params)) or 'none'}",
            )
        params[key] = _as_type_of(params[key], value, key)
    try:
        recipe = msgspec.convert(raw, Recipe)
    except msgspec.ValidationError as error:
        raise _where(path, text, error) from None
    check(recipe, path)
    files = _files(recipe, path)
    return Loaded(
        recipe=recipe,
        folder=path.parent,
        path=path,
        files=files,
        digest=_digest(recipe, files | _patch_files(recipe, path)),
    )


def fill(text: str, values: Mapping[str, object]) -> str:
    """Return `text` with each `{name}` replaced; `{{` and `}}` stand for braces. Raises `KeyError`."""

    def one(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return match.group(0)[0]
        return str(values[match.group(1)])

    return PLACEHOLDER.sub(one, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8") from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", hint="check the path and its permissions"
        ) from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}", hint="mend that line") from None


def _lay_over(raw: dict[str, Any], local: dict[str, Any], path: Path) -> None:
    for table, values in local.items():
        if table not in ("params", "host", "repo", "notify") or not isinstance(values, dict):
            raise UserError(
                f"{path}: only [params], [host], [repo] and [notify] may be set there, not '{table}'",
                hint="put anything else into the recipe itself: it changes what is measured",
            )
        raw.setdefault(table, {}).update(values)


def _as_type_of(old: object, text: str, key: str) -> object:
    if isinstance(old, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise UserError(f"--set {key}={text}: not true or false", hint=f"write --set {key}=true")
    if isinstance(old, int | float):
        try:
            return type(old)(text)
        except ValueError:
            raise UserError(f"--set {key}={text}: not a number", hint=f"as in --set {key}={old}") from None
    return text


def _where(path: Path, text: str, error: msgspec.ValidationError) -> UserError:
    """Return the error with the key's path and, where the file shows it, its line."""
    words = str(error)
    unknown = re.search(r"unknown field `([^`]+)`", words)
    at = re.search(r" - at `\$\.?([^`]*)`", words)
    place = at.group(1).replace("[...]", "") if at else ""
    key = unknown.group(1) if unknown else place.rsplit(".", 1)[-1].split("[")[0]
    table = place if unknown else place.rpartition(".")[0]
    line = _line_of(text, table, key)
    where = f"{path}:{line}" if line else str(path)
    said = re.sub(r" - at `.*`$", "", words).replace("Object", "the table").replace("`", "'")
    dotted = f"{place}.{key}".strip(".") if unknown else place
    said = f"unknown key '{dotted}'" if unknown else f"{dotted or 'the recipe'}: {said[0].lower()}{said[1:]}"
    return UserError(f"{where}: {said}", hint="`bisectperf recipe schema` lists every key with its type")


def _line_of(text: str, table: str, key: str) -> int | None:
    """Return the line of `key` in `table` (as `patch[1].assert[0]`), best effort: TOML keeps no positions."""
    names = [part.split("[")[0] for part in table.split(".") if part]
    index = re.findall(r"\[(\d+)\]", table)
    header, want, seen, inside = ".".join(names), int(index[-1]) if index else 0, -1, not names
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?", line):
            seen += head.group(1) == header
            inside = head.group(1) == header and seen == want
            if head.group(1).rsplit(".", 1)[-1] == key and not names:
                return number
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return None


def _files(recipe: Recipe, path: Path) -> dict[str, bytes]:
    """Return the files that travel to the host, by their name there (`common/` is searched too)."""
    found: dict[str, bytes] = {}
    for name in recipe.files:
        for place in (path.parent / name, path.parent.parent / "common" / name, shipped() / "common" / name):
            if place.is_file():
                found[Path(name).name] = place.read_bytes()
                break
        else:
            raise UserError(
                f"{path}: files names '{name}', which is not beside the recipe nor in common/", hint="check it"
            )
    return found


def _patch_files(recipe: Recipe, path: Path) -> dict[str, bytes]:
    """Return the files that the patches are made of, by their path beside the recipe."""
    found: dict[str, bytes] = {}
    for patch in recipe.patches:
        for source in (patch, *patch.variants):
            for name in filter(None, (source.diff, source.overlay)):
                place = path.parent / name
                if not place.exists():
                    raise UserError(
                        f"{path}: patch '{patch.name}' names '{name}', which is not there",
                        hint="correct the name, or `bisectperf patches capture` makes a patch of a dirty checkout",
                    )
                inside = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
                found |= {str(p.relative_to(path.parent)): p.read_bytes() for p in inside}
            words = [path.parent / word for word in source.script]
            found |= {word.name: word.read_bytes() for word in words if word.is_file()}
    return found


def _digest(recipe: Recipe, files: Mapping[str, bytes]) -> str:
    """Return the digest of everything that decides what is measured; the host, its gate and the port do not."""
    params = {k: v for k, v in recipe.params.items() if k != "port"}
    blank = {name: type(getattr(recipe, name))() for name in ("host", "repo", "gate", "notify", "secrets")}
    core = msgspec.structs.replace(recipe, params=params, **blank)
    seen = hashlib.sha256(msgspec.json.encode(core, order="sorted"))
    for name in sorted(files):
        seen.update(f"{name}\0{hashlib.sha256(files[name]).hexdigest()}\0".encode())
    return seen.hexdigest()
