"""What kind of file system a directory is on: whether locks and shared memory reach everybody who can see it.

Linux says so in its list of mounts; elsewhere nothing is known, and nothing is claimed. SQLite's write-ahead log needs
shared memory (its documentation, "Write-Ahead Logging", section 2: all processes on one host, "does not work over a
network filesystem"). Called by ``doctor``, and by ``store`` when it opens for writing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from memory_sqlite.values import dataclass

MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
    "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.lustre", "fuse.mfs", "fuse.moosefs", "fuse.osxfs",
    "fuse.grpcfuse", "fuse.portal", "fuse.sshfs", "fuse.vmhgfs-fuse", "fuse.juicefs",
})  # fmt: skip
"""Reached by several machines, or by a host and its virtual machines. Locks may work; shared memory ends at each."""
_WITHOUT: Final = frozenset({
    "davfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.goofys", "fuse.rclone", "fuse.s3fs", "fuse.mount-s3",
    "fuse.blobfuse", "fuse.blobfuse2",
})  # fmt: skip
"""Object stores and the like, mounted: no byte-range locks between machines, writes only whole or at the end."""
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """``type`` as the system names it, ``unknown`` where it does not say. ``network``: others may see it with locks and
    memory of their own. ``unsuitable``: a database cannot be kept there at all."""

    type: str
    kind: Literal["local", "network", "unsuitable", "unknown"]


def of(directory: Path, mounts: Path = MOUNTS) -> FileSystem:
    """The file system that holds a directory, or would hold it once it is made."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return FileSystem("unknown", "unknown")
    place = directory.resolve()
    found, depth = "unknown", -1
    for line in lines:
        # proc_pid_mountinfo(5): six fields, optional ones, a hyphen, then type, source, options
        before, _, after = line.partition(" - ")
        fields, behind = before.split(" "), after.split(" ")
        if len(fields) < 5 or not behind[0]:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if (place == point or point in place.parents) and len(point.parts) >= depth:
            found, depth = behind[0], len(point.parts)  # of several on one point the last covers the others
    return FileSystem(found, _kind(found))


def _kind(name: str) -> Literal["local", "network", "unsuitable", "unknown"]:
    if name in _WITHOUT:
        return "unsuitable"
    if name in _NETWORK:
        return "network"
    return "unknown" if name == "unknown" else "local"
