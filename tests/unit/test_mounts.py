"""The reader of the system's table of mounts."""

from __future__ import annotations

from pathlib import Path

from interlock.worker import mounts

TABLE = rb"""21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /proc rw - proc proc rw
30 21 254:0 /home/ada/data /srv/run-1/mnt rw master:2 propagate_from:3 - ext4 /dev/vda rw
31 21 0:40 / /srv/run-1/a\040b\134c/new\012line\011tab rw - fuse.sshfs ada@host:/ rw
32 21 0:41 / /srv/run-1/caf\303\251\351 rw - tmpfs none rw
33 21 0:42 / /srv/run-10 rw - tmpfs none rw
34 21 0:43 / /srv/run-2/file//deleted rw - tmpfs none rw

damaged
"""


def test_mount_points_are_found_at_and_below_a_directory() -> None:
    below = [b"mnt", b"a b\\c/new\nline\ttab", b"caf\xc3\xa9\xe9"]
    assert mounts.listed(TABLE, b"/srv/run-1") == below
    assert mounts.listed(TABLE, b"/srv/run-10") == [b"."]
    assert mounts.listed(TABLE, b"/srv/run-2") == [b"file//deleted"]
    assert mounts.listed(TABLE, b"/srv/run") == []
    assert mounts.listed(TABLE, b"/") == [
        b".",
        b"proc",
        *(b"srv/run-1/" + name for name in below),
        b"srv/run-10",
        b"srv/run-2/file//deleted",
    ]


def test_the_table_of_this_system_is_read(tmp_path: Path) -> None:
    assert mounts.below(Path("/proc"))[0] == "."
    assert mounts.below(tmp_path) == []
    link = tmp_path / "link"
    link.symlink_to("/proc")
    assert mounts.below(link / "..") == mounts.below(Path("/"))
    assert mounts.below(tmp_path / "gone") == []
