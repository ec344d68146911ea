#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stuck_python.py WAY PATTERN [LIBRARY] - two ranks wait for each other's message, in Python; for languages_test.py.

WAY is mpi4py; mpi4py-multiple, with its default thread level; or ctypes, which needs no module.  A line that ends with
`# PATTERN` is where the ranks wait.  The pattern `extension` calls the function `exchange` of the LIBRARY.
"""
import ctypes
import functools
import sys
import threading


def receiver_of_mpi4py(level):
    """A function without a line of its own that receives for ever."""
    import mpi4py

    mpi4py.rc.thread_level = level
    from mpi4py import MPI

    return functools.partial(MPI.COMM_WORLD.Recv, bytearray(4), 1 - MPI.COMM_WORLD.rank, 7)


def receiver_of_ctypes():
    library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, byte = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, name))) for name in ("ompi_mpi_comm_world", "ompi_mpi_byte"))
    number = ctypes.c_int()
    library.MPI_Init_thread(None, None, 2, ctypes.byref(number))  # MPI_THREAD_SERIALIZED
    library.MPI_Comm_rank(world, ctypes.byref(number))
    return functools.partial(library.MPI_Recv, ctypes.create_string_buffer(4), 4, byte, 1 - number.value, 7, world, None)


def plain(receive):
    def exchange():
        receive()  # plain

    exchange()


def several_lines(receive):
    print(
        "before",
        receive(  # several_lines
        ),
        "after")


def backwards(receive):
    """Instructions of an earlier line come after instructions of a later one."""
    values = [
        len("a"),
        len("b"),
    ] + list(
        "c")
    receive(), values  # backwards


def deep(receive):
    """Functions of C, a generator and a class body are on the stack."""
    def generate():
        yield from sorted([1, 2], key=lambda _: receive())  # deep

    class Body:
        values = list(map(lambda value: value, generate()))

    return Body


def recursive(receive, depth=200):
    if depth == 0:
        receive()  # recursive
    recursive(receive, depth - 1)


def worker(receive):
    """Three threads: only the second one calls MPI."""
    never = threading.Event()

    def exchange():
        receive()  # worker

    threads = [threading.Thread(target=exchange), threading.Thread(target=never.wait, daemon=True)]
    for each in threads:
        each.start()
    threads[0].join()


def thread_of_c(receive):
    """The thread that calls MPI runs no function of the program."""
    thread = threading.Thread(target=receive)
    thread.start()
    thread.join()


def extension(_):
    library = ctypes.CDLL(sys.argv[3])
    library.exchange()  # extension


def long(receive):
    """The call is in line 6002 of a file that does not exist."""
    source = "def long():\n" + "    x = [1, 2]\n" * 6000 + "    receive()\nlong()\n"
    exec(compile(source, "/nowhere/long.py", "exec"), {"receive": receive})


def names(receive):
    source = "\n\ndef prüfe():\n    receive()\nprüfe()\n"
    exec(compile(source, "/nowhere/größe-λ-😀-\x1b[2J.py", "exec"), {"receive": receive})


def modules(receive):
    """The innermost function is one of mpi4py's own modules."""
    from mpi4py import MPI
    from mpi4py.util import pkl5

    pkl5.Intracomm(MPI.COMM_WORLD).recv(source=1 - MPI.COMM_WORLD.rank, tag=7)  # modules


if __name__ == "__main__":
    way, pattern = sys.argv[1:3]
    call = receiver_of_ctypes() if way == "ctypes" else receiver_of_mpi4py("multiple" if way == "mpi4py-multiple" else "serialized")
    globals()[pattern](call)
