# SPDX-License-Identifier: BSD-3-Clause
"""Everyday operations of MPI programs in Python, through mpi4py: point-to-point of every kind, probes,
matched probes, cancel, persistent and partitioned requests, collectives, threads,
intercommunicators, one-sided operations on windows of both kinds.

usage: mpiexec -n RANKS python3 everyday.py      (2 ranks or more)

Every check compares the result with the expected one.  Rank 0 prints one line at the end, which also
reports whether there were threads and partitioned requests: MPI 3 (Open MPI 4) has no partitioned
ones.
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
    """Pickled objects of any kind, to the right neighbour."""
    for seed, value in enumerate(({"a": [1, 2.5, None]}, "text" * 5000, list(range(10000)))):
        got = WORLD.sendrecv((RANK, value), RIGHT, seed, source=LEFT, recvtag=seed)
        check(got == (LEFT, value), f"object {seed}")


def buffers():
    """Messages of every size, blocking, nonblocking and synchronous."""
    for size in (0, 1, 8, 100, 4096, 4097, 65536, LONG):
        for seed, send in enumerate((WORLD.Isend, WORLD.Issend)):
            got = numpy.zeros(size, dtype=numpy.uint8)
            receive = WORLD.Irecv(got, LEFT, size % 1000)
            request = send(pattern(size, RANK + seed), RIGHT, size % 1000)
            MPI.Request.Waitall([request, receive])
            check((got == pattern(size, LEFT + seed)).all(), f"{size} bytes")


def modes():
    """Blocking, buffered, ready and replacing sends; a derived datatype; MPI_PROC_NULL."""
    got = numpy.zeros(1000, dtype=numpy.uint8)
    MPI.Attach_buffer(bytearray(1000 + MPI.BSEND_OVERHEAD))
    WORLD.Bsend(pattern(1000, RANK), RIGHT, 1)
    WORLD.Recv(got, LEFT, 1)
    check((got == pattern(1000, LEFT)).all(), "a buffered message")
    MPI.Detach_buffer()
    request = WORLD.Irecv(got, LEFT, 2)
    WORLD.Barrier()
    WORLD.Rsend(pattern(1000, RANK + 1), RIGHT, 2)
    request.Wait()
    check((got == pattern(1000, LEFT + 1)).all(), "a ready message")
    got[:] = pattern(1000, RANK + 2)
    WORLD.Sendrecv_replace(got, RIGHT, 3, LEFT, 3)
    check((got == pattern(1000, LEFT + 2)).all(), "a message in the place of another")
    table = numpy.arange(100, dtype=numpy.int64).reshape(10, 10) + RANK * 1000
    column = MPI.LONG.Create_vector(10, 1, 10).Commit()
    got = numpy.zeros(10, dtype=numpy.int64)
    WORLD.Sendrecv([table, 1, column], RIGHT, 4, got, LEFT, 4)
    check((got == numpy.arange(0, 100, 10) + LEFT * 1000).all(), "a column")
    column.Free()
    status = MPI.Status()
    WORLD.Recv(got, MPI.PROC_NULL, 5, status)
    check(status.Get_source() == MPI.PROC_NULL and status.Get_count(MPI.BYTE) == 0, "nobody")


def wildcards():
    """All ranks send to rank 0, which receives from any source."""
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
    """probe, iprobe, mprobe and improbe see the message that is received afterwards.  Each size has a tag of
    its own: a neighbour may be one size ahead."""
    for tag, size in ((5, 10), (6, LONG)):
        request = WORLD.Isend(pattern(size, RANK), RIGHT, tag)
        status = MPI.Status()
        WORLD.Probe(LEFT, tag, status)
        check(status.Get_count(MPI.BYTE) == size, "the size that a probe has seen")
        check(WORLD.Iprobe(MPI.ANY_SOURCE, tag), "a second probe")
        got = numpy.zeros(size, dtype=numpy.uint8)
        if size == 10:
            message = WORLD.Mprobe(LEFT, tag, status)
        else:
            message = None
            while message is None:
                message = WORLD.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        check(not WORLD.Iprobe(LEFT, tag), "a message that was taken is seen again")
        message.Recv(got)
        check((got == pattern(size, LEFT)).all(), "the message of a matched probe")
        request.Wait()


def cancel():
    """A receive without a message can be cancelled; a receive that has matched cannot."""
    status = MPI.Status()
    request = WORLD.Irecv(numpy.zeros(8, dtype=numpy.uint8), LEFT, 77)
    request.Cancel()
    request.Wait(status)
    check(status.Is_cancelled(), "a cancelled receive")
    got = numpy.zeros(8, dtype=numpy.uint8)
    request = WORLD.Irecv(got, LEFT, 78)
    WORLD.Send(pattern(8, RANK), RIGHT, 78)
    WORLD.Barrier()
    while not request.Get_status():
        pass
    request.Cancel()
    request.Wait(status)
    check(not status.Is_cancelled() and (got == pattern(8, LEFT)).all(), "too late a cancel")


def persistent():
    out, got = pattern(3000, RANK), numpy.zeros(3000, dtype=numpy.uint8)
    requests = [WORLD.Send_init(out, RIGHT, 9), WORLD.Recv_init(got, LEFT, 9)]
    for turn in range(50):
        out[:] = pattern(3000, RANK + turn)
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        check((got == pattern(3000, LEFT + turn)).all(), "a persistent receive")
    for request in requests:
        request.Free()


def partitioned():
    """A message in eight parts, each of which becomes ready at its own time."""
    if MPI.VERSION < 4 or not hasattr(WORLD, "Psend_init"):
        return False
    out, got = pattern(8000, RANK), numpy.zeros(8000, dtype=numpy.uint8)
    send = WORLD.Psend_init(out, 8, RIGHT, 10)
    receive = WORLD.Precv_init(got, 8, LEFT, 10)
    for _ in range(3):
        got[:] = 0
        MPI.Prequest.Startall([receive, send])
        for part in (3, 0, 7, 1, 2, 6, 5, 4):
            send.Pready(part)
        MPI.Request.Waitall([send, receive])
        check((got == pattern(8000, LEFT)).all(), "a message in parts")
    send.Free()
    receive.Free()
    return True


def vectors(everybody):
    """Collectives in which each rank has a different share: rank + 1 numbers."""
    counts = [rank + 1 for rank in everybody]
    starts = [sum(counts[:rank]) for rank in everybody]
    mine = numpy.full(RANK + 1, RANK, dtype=numpy.int64)
    want = numpy.repeat(numpy.array(everybody, dtype=numpy.int64), counts)
    all_of_it = numpy.zeros(sum(counts), dtype=numpy.int64)
    WORLD.Allgatherv(mine, [all_of_it, counts, starts, MPI.LONG])
    check((all_of_it == want).all(), "Allgatherv")
    share = numpy.zeros(RANK + 1, dtype=numpy.int64)
    WORLD.Scatterv([want * 3, counts, starts, MPI.LONG], share, SIZE - 1)
    check((share == 3 * RANK).all(), "Scatterv")
    all_of_it[:] = -1
    WORLD.Gatherv(share, [all_of_it, counts, starts, MPI.LONG], 0)
    check(RANK != 0 or (all_of_it == want * 3).all(), "Gatherv")
    to_all = numpy.repeat(numpy.array(everybody, dtype=numpy.int64) + RANK * 100, RANK + 1)
    came = numpy.zeros(sum(counts), dtype=numpy.int64)
    WORLD.Alltoallv([to_all, [RANK + 1] * SIZE, [(RANK + 1) * n for n in everybody], MPI.LONG],
                    [came, counts, starts, MPI.LONG])
    check((came == want * 100 + RANK).all(), "Alltoallv")
    WORLD.Reduce_scatter(want.copy(), share, counts, MPI.SUM)
    check((share == RANK * SIZE).all(), "Reduce_scatter")
    check(WORLD.exscan(1) == (RANK if RANK > 0 else None), "exscan")
    check(WORLD.reduce(RANK, MPI.MAX, SIZE - 1) == (SIZE - 1 if RANK == SIZE - 1 else None),
          "reduce")
    total = numpy.zeros(1, dtype=numpy.int64)
    requests = [WORLD.Iallreduce(numpy.array([RANK]), total), WORLD.Ibarrier()]
    MPI.Request.Waitall(requests)
    check(total[0] == sum(everybody), "Iallreduce")


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
        got = numpy.zeros(count)
        WORLD.Allreduce(numpy.full(count, RANK + 1.0), got)
        check((got == SIZE * (SIZE + 1) / 2).all(), f"Allreduce of {count}")
        request = WORLD.Ibcast(got, count % SIZE)
        request.Wait()
    vectors(everybody)
    part = WORLD.Split(RANK % 2, RANK)
    check(part.allreduce(1) == len([n for n in everybody if n % 2 == RANK % 2]), "a part")
    part.Free()


def intercommunicator():
    """The even ranks exchange messages with the odd ones."""
    part = WORLD.Split(RANK % 2, RANK)
    other = part.Create_intercomm(0, WORLD, 1 - RANK % 2, 3)
    check(other.allgather(RANK) == [n for n in range(SIZE) if n % 2 != RANK % 2], "the others")
    other.Free()
    part.Free()


def accesses(win, base, cells):
    """Puts, gets and updates of the right neighbour's window; its cells begin at base[rank] there."""
    mine, got = numpy.arange(100, dtype=numpy.int64) + RANK * 1000, numpy.zeros(100, numpy.int64)
    win.Fence()
    win.Put(mine, RIGHT, (base[RIGHT], 100, MPI.LONG))
    win.Fence()
    check((cells[:100] == numpy.arange(100) + LEFT * 1000).all(), "what was put")
    win.Fence()
    win.Get(got, RIGHT, (base[RIGHT], 100, MPI.LONG))
    win.Fence()
    check((got == mine).all(), "what was got")
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


def groups_and_requests(win, base, cells):
    """Accesses between named partners, by requests, and accesses that fetch."""
    mine, got = numpy.arange(10, dtype=numpy.int64) + RANK, numpy.zeros(10, numpy.int64)
    world = WORLD.Get_group()
    cells[:] = 0
    WORLD.Barrier()
    win.Post(world.Incl([LEFT]))
    win.Start(world.Incl([RIGHT]))
    win.Put(mine, RIGHT, (base[RIGHT], 10, MPI.LONG))
    win.Complete()
    win.Wait()
    check((cells[:10] == numpy.arange(10) + LEFT).all(), "what a named partner has put")
    WORLD.Barrier()
    win.Lock_all()
    win.Rput(mine * 2, RIGHT, (base[RIGHT], 10, MPI.LONG)).Wait()
    win.Flush(RIGHT)
    win.Rget(got, RIGHT, (base[RIGHT], 10, MPI.LONG)).Wait()
    check((got == mine * 2).all(), "what was put and got by requests")
    win.Get_accumulate(mine, got, RIGHT, target=(base[RIGHT], 10, MPI.LONG), op=MPI.SUM)
    win.Flush(RIGHT)
    check((got == mine * 2).all(), "what was there before something was added")
    win.Unlock_all()
    WORLD.Barrier()
    win.Lock(RANK, MPI.LOCK_EXCLUSIVE)
    check((cells[:10] == (numpy.arange(10) + LEFT) * 3).all(), "what was added and fetched")
    win.Unlock(RANK)
    WORLD.Barrier()


def windows():
    cells = numpy.zeros(101, numpy.int64)
    win = MPI.Win.Create(cells, 1, comm=WORLD)
    accesses(win, [0] * SIZE, cells)
    groups_and_requests(win, [0] * SIZE, cells)
    win.Free()


def dynamic_windows():
    """Memory that is attached to an existing window, and addressed absolutely."""
    cells = numpy.zeros(101, numpy.int64)
    win = MPI.Win.Create_dynamic(comm=WORLD)
    win.Attach(cells)
    accesses(win, WORLD.allgather(MPI.Get_address(cells)), cells)
    win.Detach(cells)
    win.Free()


def threads():
    """Four threads exchange messages with the neighbours' threads, each on a communicator of its own."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return False
    comms = [WORLD.Dup() for _ in range(4)]
    wrong = []

    def talk(number):
        got = numpy.zeros(500, dtype=numpy.uint8)
        for turn in range(50):
            request = comms[number].Irecv(got, LEFT, turn)
            comms[number].Send(pattern(500, RANK + turn + number), RIGHT, turn)
            request.Wait()
            if not (got == pattern(500, LEFT + turn + number)).all():
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
    for step in (objects, buffers, modes, wildcards, probes, cancel, persistent, collectives,
                 intercommunicator, windows, dynamic_windows):
        step()
        WORLD.Barrier()
    had = [what.__name__ + ("=yes" if what() else "=no") for what in (partitioned, threads)]
    WORLD.Barrier()
    if RANK == 0:
        print(f"ok everyday.py ranks={SIZE} {' '.join(had)}", flush=True)
    return 0


sys.exit(main())
