"""Files written whole or not at all."""
import os
import secrets


def check_target(path, *sources):
    """ValueError unless `path` is free, or a regular file that is none of the sources (None: no source)."""
    if os.path.exists(path):
        if not os.path.isfile(path):
            raise ValueError(f"{path} is not a regular file")
        if any(source and os.path.exists(source) and os.path.samefile(path, source) for source in sources):
            raise ValueError(f"{path} is read from; write to another file")


def write_whole(path, write, *sources):
    """Calls write(PART) and puts the new file PART in the place of `path` when all of it is on the disk."""
    check_target(path, *sources)
    part = f"{os.fspath(path)}.part-{secrets.token_hex(8)}"
    with open(part, "xb"):
        pass
    try:
        write(part)
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
