# SPDX-License-Identifier: BSD-3-Clause
"""Programs in Python that wait for ever, at mpi4py's usual thread level; for doctor_threads_test.py.

usage: mpiexec -n 2 python3 stuck.py PATTERN
"""
import sys
import threading

from mpi4py import MPI

LONG = 20 << 20
WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
OTHER = 1 - RANK


def wrong_tags():
    """Each rank receives first, and the only message has another tag."""
    if RANK == 1:
        WORLD.send("text", OTHER, 8)
    WORLD.recv(source=OTHER, tag=7 if RANK == 0 else 9)


def one_too_many():
    """Rank 0 receives once more than rank 1 sends."""
    if RANK == 0:
        for _ in range(2):
            WORLD.recv(source=MPI.ANY_SOURCE)
        WORLD.send("go", 1)
    else:
        WORLD.send("done", 0)
        WORLD.recv(source=0)


def bcast_and_allreduce():
    if RANK == 0:
        WORLD.bcast("value", root=1)
    else:
        WORLD.allreduce(1)


def two_sends():
    WORLD.send(bytes(LONG), OTHER)
    WORLD.recv(source=OTHER)


def finalized():
    if RANK == 0:
        WORLD.recv(source=1, tag=3)


def both_poll():
    request = WORLD.irecv(source=OTHER, tag=9)
    while not request.test()[0] and not WORLD.iprobe(source=OTHER, tag=7):
        pass


def poll_and_receive():
    while RANK == 0 and not WORLD.iprobe(source=OTHER, tag=7):
        pass
    WORLD.recv(source=OTHER, tag=9)


def poll_and_compute():
    while RANK == 0 and not WORLD.iprobe(tag=7):
        pass
    while True:
        pass


def in_a_thread():
    """All messages are a second thread's, for which the first one waits."""
    thread = threading.Thread(target=wrong_tags)
    thread.start()
    thread.join()


def with_a_thread():
    """A second thread never communicates."""
    threading.Thread(target=threading.Event().wait, args=(3600,), daemon=True).start()
    wrong_tags()


globals()[sys.argv[1]]()
