"""Turns what the file system and SQLite raise into one clear StoreError."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def store_faults(store: Path) -> Iterator[None]:
    """Every database or file error inside becomes a StoreError that says what to do next."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(_database_message(store, str(getattr(error, "orig", None) or error))) from error
    except OSError as error:
        raise StoreError(_file_message(store, error)) from error


def _database_message(store: Path, text: str) -> str:
    text = " ".join(text.split())
    if "is full" in text or "disk I/O error" in text:
        return (
            f"store {store} cannot be written ({text}): the disk is full or failing; what was committed is kept; "
            "free some space, or give another folder with --store"
        )
    if "readonly" in text or "unable to open" in text:
        return f"store {store} cannot be written ({text}): give a writable folder with --store"
    if "not a database" in text or "malformed" in text or "corrupt" in text:
        return (
            f"store {store} has a damaged database ({text}): move {store / 'store.sqlite'} away to begin anew, "
            "or give another folder with --store"
        )
    if "locked" in text:
        return f"store {store} was held by another run for too long ({text}): wait for it, or give another --store"
    return f"store {store} failed ({text}); give another folder with --store"


def _file_message(store: Path, error: OSError) -> str:
    what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    if error.errno in _FULL:
        return (
            f"store {store} cannot be written ({what}): the disk is full; what was committed is kept; "
            "free some space, or give another folder with --store"
        )
    if error.errno in _FORBIDDEN:
        return f"store {store} cannot be written ({what}): give a writable folder with --store"
    return f"store {store} cannot be used ({what}); give another folder with --store"
