# SPDX-License-Identifier: BSD-3-Clause
"""What MPI programs written in Python do every day, through mpi4py: point-to-point of every
kind, probes, matched probes, cancel, persistent requests, collectives, threads, intercommunicators,
one-sided operations on windows of both kinds.

usage: mpiexec -n RANKS python3 everyday.py      (2 ranks or more)

Every check compares what came with what must have come.  Rank 0 prints one line at the end.
"""
import sys
import threading

import numpy
from mpi4py import MPI

LONG = 1 << 20
WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def check(ok, what):
    if not ok:
        print(f"everyday.py: rank {RANK}: wrong: {what}", flush=True)
        WORLD.Abort(1)


def pattern(size, seed):
    return ((numpy.arange(size, dtype=numpy.int64) * 31 + seed * 7) % 251).astype(numpy.uint8)


def objects():
    """Pickled objects of any kind, to the right."""
    for seed, value in enumerate(({"a": [1, 2.5, None]}, "text" * 5000, list(range(10000)))):
        got = WORLD.sendrecv((RANK, value), RIGHT, seed, source=LEFT, recvtag=seed)
        check(got == (LEFT, value), f"object {seed}")


def buffers():
    """Every size, blocking, nonblocking and synchronous."""
    for size in (0, 1, 8, 100, 4096, 4097, 65536, LONG):
        for seed, send in enumerate((WORLD.Isend, WORLD.Issend)):
            room = numpy.zeros(size, dtype=numpy.uint8)
            receive = WORLD.Irecv(room, LEFT, size % 1000)
            request = send(pattern(size, RANK + seed), RIGHT, size % 1000)
            MPI.Request.Waitall([request, receive])
            check((room == pattern(size, LEFT + seed)).all(), f"{size} bytes")


def wildcards():
    """Everybody to rank 0, which does not know who comes when."""
    if RANK != 0:
        for tag in range(20):
            WORLD.send((RANK, tag), 0, tag)
        return
    seen = {rank: 0 for rank in range(1, SIZE)}
    status = MPI.Status()
    for _ in range(20 * (SIZE - 1)):
        rank, tag = WORLD.recv(None, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        check((rank, tag) == (status.Get_source(), status.Get_tag()), "a status")
        check(seen[rank] == tag, "the order of messages of one rank")
        seen[rank] += 1


def probes():
    """probe, iprobe, mprobe and improbe see what is received afterwards."""
    for size in (10, LONG):
        request = WORLD.Isend(pattern(size, RANK), RIGHT, 5)
        status = MPI.Status()
        WORLD.Probe(LEFT, 5, status)
        check(status.Get_count(MPI.BYTE) == size, "the size that a probe has seen")
        check(WORLD.Iprobe(MPI.ANY_SOURCE, 5), "a second probe")
        room = numpy.zeros(size, dtype=numpy.uint8)
        if size == 10:
            message = WORLD.Mprobe(LEFT, 5, status)
        else:
            message = None
            while message is None:
                message = WORLD.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        check(not WORLD.Iprobe(LEFT, 5), "a message that was taken is seen again")
        message.Recv(room)
        check((room == pattern(size, LEFT)).all(), "the message of a matched probe")
        request.Wait()


def cancel():
    """A receive that nobody answers is taken back; one that is answered is not."""
    status = MPI.Status()
    request = WORLD.Irecv(numpy.zeros(8, dtype=numpy.uint8), LEFT, 77)
    request.Cancel()
    request.Wait(status)
    check(status.Is_cancelled(), "a cancelled receive")
    room = numpy.zeros(8, dtype=numpy.uint8)
    request = WORLD.Irecv(room, LEFT, 78)
    WORLD.Send(pattern(8, RANK), RIGHT, 78)
    WORLD.Barrier()
    while not request.Get_status():
        pass
    request.Cancel()
    request.Wait(status)
    check(not status.Is_cancelled() and (room == pattern(8, LEFT)).all(), "too late a cancel")


def persistent():
    out, room = pattern(3000, RANK), numpy.zeros(3000, dtype=numpy.uint8)
    requests = [WORLD.Send_init(out, RIGHT, 9), WORLD.Recv_init(room, LEFT, 9)]
    for turn in range(50):
        out[:] = pattern(3000, RANK + turn)
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        check((room == pattern(3000, LEFT + turn)).all(), "a persistent receive")
    for request in requests:
        request.Free()


def collectives():
    everybody = list(range(SIZE))
    check(WORLD.allgather(RANK) == everybody, "allgather")
    check(WORLD.allreduce(RANK) == sum(everybody), "allreduce")
    check(WORLD.alltoall([RANK * 100 + to for to in everybody]) ==
          [rank * 100 + RANK for rank in everybody], "alltoall")
    check(WORLD.bcast("root" if RANK == 0 else None) == "root", "bcast")
    check(WORLD.scan(1) == RANK + 1, "scan")
    check(WORLD.scatter([n * n for n in everybody] if RANK == 0 else None) == RANK * RANK,
          "scatter")
    for count in (1, 1000, 200000):
        room = numpy.zeros(count)
        WORLD.Allreduce(numpy.full(count, RANK + 1.0), room)
        check((room == SIZE * (SIZE + 1) / 2).all(), f"Allreduce of {count}")
        request = WORLD.Ibcast(room, count % SIZE)
        request.Wait()
    part = WORLD.Split(RANK % 2, RANK)
    check(part.allreduce(1) == len([n for n in everybody if n % 2 == RANK % 2]), "a part")
    part.Free()


def intercommunicator():
    """The even ranks talk to the odd ones."""
    part = WORLD.Split(RANK % 2, RANK)
    other = part.Create_intercomm(0, WORLD, 1 - RANK % 2, 3)
    check(other.allgather(RANK) == [n for n in range(SIZE) if n % 2 != RANK % 2], "the others")
    other.Free()
    part.Free()


def accesses(win, base, cells):
    """Puts, gets and updates of the window of the right; its cells begin at base[rank] there."""
    mine, room = numpy.arange(100, dtype=numpy.int64) + RANK * 1000, numpy.zeros(100, numpy.int64)
    win.Fence()
    win.Put(mine, RIGHT, (base[RIGHT], 100, MPI.LONG))
    win.Fence()
    check((cells[:100] == numpy.arange(100) + LEFT * 1000).all(), "what was put")
    win.Fence()
    win.Get(room, RIGHT, (base[RIGHT], 100, MPI.LONG))
    win.Fence()
    check((room == mine).all(), "what was got")
    win.Accumulate(mine, RIGHT, (base[RIGHT], 100, MPI.LONG), op=MPI.SUM)
    win.Fence()
    check((cells[:100] == 2 * (numpy.arange(100) + LEFT * 1000)).all(), "what was added")
    win.Fence()
    one, got = numpy.ones(1, numpy.int64), numpy.zeros(1, numpy.int64)
    counter = base[0] + 100 * cells.itemsize
    win.Lock_all()
    for _ in range(20):
        win.Fetch_and_op(one, got, 0, counter, MPI.SUM)
        win.Flush(0)
        check(0 <= got[0] < 20 * SIZE, "a number of the counter")
    win.Unlock_all()
    WORLD.Barrier()
    win.Lock(0, MPI.LOCK_SHARED)
    win.Get(got, 0, (counter, 1, MPI.LONG))
    win.Unlock(0)
    check(got[0] == 20 * SIZE, "the counter")
    WORLD.Barrier()


def windows():
    cells = numpy.zeros(101, numpy.int64)
    win = MPI.Win.Create(cells, 1, comm=WORLD)
    accesses(win, [0] * SIZE, cells)
    win.Free()


def dynamic_windows():
    """Memory that is attached to a window that is there already, and named by its address."""
    cells = numpy.zeros(101, numpy.int64)
    win = MPI.Win.Create_dynamic(comm=WORLD)
    win.Attach(cells)
    accesses(win, WORLD.allgather(MPI.Get_address(cells)), cells)
    win.Detach(cells)
    win.Free()


def threads():
    """Four threads talk to those of the right, each on a communicator of its own."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return False
    comms = [WORLD.Dup() for _ in range(4)]
    wrong = []

    def talk(number):
        room = numpy.zeros(500, dtype=numpy.uint8)
        for turn in range(50):
            request = comms[number].Irecv(room, LEFT, turn)
            comms[number].Send(pattern(500, RANK + turn + number), RIGHT, turn)
            request.Wait()
            if not (room == pattern(500, LEFT + turn + number)).all():
                wrong.append((number, turn))

    workers = [threading.Thread(target=talk, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(not wrong, f"messages of threads {wrong}")
    for comm in comms:
        comm.Free()
    return True


def main():
    if SIZE < 2:
        print("everyday.py: 1 rank; 2 or more are needed", file=sys.stderr)
        return 2
    for step in (objects, buffers, wildcards, probes, cancel, persistent, collectives,
                 intercommunicator, windows, dynamic_windows):
        step()
        WORLD.Barrier()
    had_threads = threads()
    WORLD.Barrier()
    if RANK == 0:
        print(f"ok everyday.py ranks={SIZE} threads={'yes' if had_threads else 'no'}", flush=True)
    return 0


sys.exit(main())
