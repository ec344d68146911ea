# SPDX-License-Identifier: BSD-3-Clause
"""Programs in Python that wait for ever, at mpi4py's usual thread level; for doctor_threads_test.py.

usage: mpiexec -n RANKS python3 stuck.py PATTERN

Patterns that stuck.c has as well have the same name and the same messages there.
"""
import os
import sys
import threading

if sys.argv[1] == "small_head_to_head":
    os.environ["MBX_STRICT_SENDS"] = "yes"
from mpi4py import MPI  # noqa: E402

LONG = 20 << 20
WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
SIZE = WORLD.Get_size()
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


# ---- patterns of stuck.c ----


def receive(source, tag):
    WORLD.Recv(bytearray(4), source, tag)


def transfer(dest, tag, size=4):
    WORLD.Send(bytearray(size), dest, tag)


def named(name):
    comm = WORLD.Dup()
    comm.Set_name(name)
    return comm


def tag_differs():
    if RANK == 1:
        transfer(0, 8)
    receive(OTHER, 7 if RANK == 0 else 9)


def communicator_differs():
    halo = named("halo")
    if RANK == 1:
        halo.Send(bytearray(4), 0, 7)
    receive(OTHER, 7)


def source_and_communicator_differ():
    halo = named("halo")
    if RANK == 1:
        halo.Send(bytearray(4), 0, 7)
    receive(2 if RANK == 0 else 0, 7)


def source_differs():
    if RANK == 1:
        transfer(0, 7)
    receive(2 if RANK == 0 else 0, 7)


def head_to_head():
    transfer(OTHER, 5, LONG)
    receive(OTHER, 5)


def both_synchronous():
    WORLD.Ssend(bytearray(4), OTHER, 5)


def both_receive():
    receive(OTHER, 1)


def ring_of_receives():
    receive((RANK + SIZE - 1) % SIZE, 1)


def ring_of_sends():
    transfer((RANK + 1) % SIZE, 1, LONG)


def all_any_source():
    receive(MPI.ANY_SOURCE, 1)


def receive_from_finalized():
    if RANK == 0:
        receive(1, 7)


def synchronous_to_finalized():
    if RANK == 0:
        WORLD.Ssend(bytearray(4), 1, 7)


def barrier_and_bcast():
    if RANK == 0:
        WORLD.Barrier()
    else:
        WORLD.Bcast(bytearray(4), 0)


def barrier_and_receive():
    if RANK == 0:
        WORLD.Barrier()
    else:
        receive(0, 7)


def barrier_and_exchange():
    if RANK == 0:
        transfer(1, 7)
        receive(1, 8)
    else:
        WORLD.Barrier()


def communicator_left_out():
    if RANK == 0:
        WORLD.Create_cart([2], [True])
    else:
        receive(0, 7)


def leader_left_out():
    if RANK == 0:
        MPI.COMM_SELF.Create_intercomm(0, WORLD, 1, 9)
    else:
        receive(0, 7)


def fence_and_barrier():
    window = MPI.Win.Create(bytearray(4), comm=WORLD)
    if RANK == 0:
        window.Fence()
    else:
        WORLD.Barrier()


def detach_and_receive():
    if RANK == 0:
        MPI.Attach_buffer(bytearray(LONG + MPI.BSEND_OVERHEAD))
        WORLD.Bsend(bytearray(LONG), 1, 7)
        MPI.Detach_buffer()
    else:
        receive(0, 8)


def collective_left_out():
    if RANK != 2:
        WORLD.Allreduce(bytearray(4), bytearray(4), MPI.MAX)


def wait_all():
    if RANK == 1:
        transfer(0, 7)
        transfer(0, 8)
        receive(0, 1)
    MPI.Request.Waitall([WORLD.Irecv(bytearray(4), 1, 7 + i) for i in range(3)])


def wait_any():
    if RANK == 1:
        receive(0, 1)
    MPI.Request.Waitany([WORLD.Irecv(bytearray(4), 1, 7 + i) for i in range(2)])


def probe_in_vain():
    if RANK == 0:
        WORLD.Probe(1, 4)
    else:
        receive(0, 1)


def sendrecv_chain():
    following = (RANK + 1) % SIZE
    WORLD.Sendrecv(bytearray(LONG), following, 1, bytearray(LONG), following, 1)


def send_to_itself():
    transfer(RANK, 3, LONG)


def receive_from_itself():
    receive(RANK, 3)


def small_head_to_head():
    transfer(OTHER, 5)
    receive(OTHER, 5)


def two_cycles():
    receive(RANK ^ 1, 1)


def two_communicators():
    one, other = named("one"), named("other")
    (one if RANK == 0 else other).Bcast(bytearray(4), OTHER)


def roots_differ():
    WORLD.Bcast(bytearray(4), OTHER)


def all_roots_differ():
    WORLD.Bcast(bytearray(4), (RANK + 1) % SIZE)


def nonblocking_roots_differ():
    WORLD.Ibcast(bytearray(4), OTHER).Wait()


def not_started():
    requests = [WORLD.Send_init(bytearray(4), 0, 2)] if RANK == 1 else []
    receive(OTHER, 2)
    del requests


def receive_not_started():
    requests = [WORLD.Recv_init(bytearray(4))] if RANK == 1 else []
    if RANK == 0:
        WORLD.Ssend(bytearray(4), 1, 2)
    receive(0, 3)
    del requests


def started_once():
    if RANK == 1:
        request = WORLD.Send_init(bytearray(4), 0, 2)
        request.Start()
        request.Wait()
    else:
        receive(1, 2)
    receive(OTHER, 2)


def inter_communicator():
    inter = MPI.COMM_SELF.Create_intercomm(0, WORLD, OTHER, 9)
    inter.Set_name("between")
    inter.Recv(bytearray(4), 0, 6)


def nonblocking_differ():
    requests = []
    if RANK == 0:
        requests += [WORLD.Ibcast(bytearray(4), 1)]
    else:
        requests += [WORLD.Ireduce(bytearray(4), bytearray(4), MPI.MAX, 1), WORLD.Ibarrier()]
    requests[0].Wait()


def nonblocking_left_out():
    if RANK == 1:
        receive(0, 1)
    WORLD.Ibarrier().Wait()


def nonblocking_elsewhere():
    halo = named("halo")
    (halo if RANK == 0 else WORLD).Ialltoall(bytearray(2), bytearray(2)).Wait()


def wildcard_took_it():
    if RANK == 2:
        transfer(0, 3)
    if RANK == 0:
        receive(MPI.ANY_SOURCE, 3)
        transfer(1, 4)
        receive(2, 3)
    if RANK == 1:
        receive(0, 4)
        transfer(0, 3)
    receive(0, 9)


def probed_and_not_received():
    if RANK == 0:
        WORLD.Ssend(bytearray(4), 1, 5)
    message = WORLD.Mprobe(0, 5)
    receive(0, 5)
    del message


def wait_all_beside():
    if RANK == 1:
        receive(0, 1)
    while RANK == 2:
        pass
    MPI.Request.Waitall([WORLD.Irecv(bytearray(4), 1 + i, 7) for i in range(2)])


def beyond_the_window():
    if RANK == 1:
        for _ in range(200000):
            transfer(0, 8)
        transfer(0, 7)
    receive(OTHER, 7)


globals()[sys.argv[1]]()
