# SPDX-License-Identifier: BSD-3-Clause
"""matchbox-gdb.py - `mbx queues` in gdb: the queues of the rank that is debugged, or of its core file.

    gdb -p PID -x matchbox-gdb.py -ex 'mbx queues'
    gdb ./program core.PID -x matchbox-gdb.py -ex 'mbx queues'

It is a debugger for libmatchbox-msgq.so, which reads the queues and knows what the MPI means by them: that library is
given gdb's functions to read the process, through ctypes.  Neither the program nor Matchbox needs debug information.
"""
import ctypes
import os
import struct

import gdb

HERE = os.path.dirname(os.path.realpath(__file__))  # gdb reports it only while it reads this file
LIBRARY = "libmatchbox-msgq.so"
PAGE_NAME = "/memfd:matchbox-inspect"
PAGE_MAGIC = b"MBXSEE1\0"
HEAD_ROOT = 48  # src/inspect/page.h: the head of a page has the address of the layout here

OK, NO_INFORMATION = 0, 1
CLASSES = ((1, "from"), (2, "from"), (0, "to"))  # receives, unexpected messages, sends

Address, Word = ctypes.c_ulong, ctypes.c_long


class Communicator(ctypes.Structure):
    _fields_ = [("unique_id", Address), ("local_rank", Word), ("size", Word), ("name", ctypes.c_char * 64)]


class Operation(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("rank_there", Word), ("rank", Word), ("tag_wild", ctypes.c_int), ("tag", Word),
                ("length", Word), ("system_buffer", ctypes.c_int), ("buffer", Address), ("actual_rank_there", Word),
                ("actual_rank", Word), ("actual_tag", Word), ("actual_length", Word), ("text", ctypes.c_char * 64 * 5)]


class Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("short", "int", "long", "long_long", "pointer", "bool", "size_t")]


def table(name, *functions):
    """A structure of pointers to functions, each given by the types of its result and arguments."""
    return type(name, (ctypes.Structure,), {"_fields_": [(f"f{i}", ctypes.CFUNCTYPE(*f)) for i, f in enumerate(functions)]})


P, I, S = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
Basic = table("Basic", (P, ctypes.c_size_t), (None, P), (None, S), (P, I), (None, P, P), (P, P), (None, P, P), (P, P))
Image = table("Image", (None, P, ctypes.POINTER(Sizes)), (I, P, S, I, ctypes.POINTER(Address)),
              (I, P, S, ctypes.POINTER(Address)), (P, P, S, I), (I, P, S), (I, P))
Process = table("Process", (I, P), (P, P), (I, P, Address, I, P), (None, P, P, P, I))


def find_library():
    named = os.environ.get("ALLINEA_QUEUE_DLL", "")
    places = ([named] if os.path.basename(named) == LIBRARY else []) + [
        os.path.join(HERE, place, LIBRARY) for place in (".", "@LIBRARY_PLACE@", "../../src/msgq")]
    for path in places:
        if os.path.exists(path):
            return path
    raise gdb.GdbError(f"{LIBRARY} is not in {', '.join(places)}")


class Debugger:
    """The functions that libmatchbox-msgq.so needs of a debugger, by gdb."""

    def __init__(self):
        self.library = ctypes.CDLL(find_library())
        for name in ("mqs_setup_image", "mqs_setup_process", "mqs_update_communicator_list", "mqs_setup_communicator_iterator",
                     "mqs_get_communicator", "mqs_next_communicator", "mqs_setup_operation_iterator", "mqs_next_operation"):
            getattr(self.library, name).restype = ctypes.c_int
        self.library.mqs_dll_error_string.restype = ctypes.c_char_p
        self.library.mqs_destroy_process_info.restype = self.library.mqs_destroy_image_info.restype = None
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = P, [ctypes.c_size_t], [P]
        self.infos = {"image": None, "process": None}
        self.root = 0
        types = [dict(structure._fields_) for structure in (Basic, Image, Process)]
        # keep references: the library has their addresses
        self.basic = Basic(
            types[0]["f0"](libc.malloc), types[0]["f1"](libc.free), types[0]["f2"](lambda text: None), types[0]["f3"](lambda code: None),
            types[0]["f4"](lambda image, info: self.put("image", info)), types[0]["f5"](lambda image: self.infos["image"]),
            types[0]["f6"](lambda process, info: self.put("process", info)), types[0]["f7"](lambda process: self.infos["process"]))
        self.image = Image(
            types[1]["f0"](self.sizes), types[1]["f1"](lambda *_: NO_INFORMATION), types[1]["f2"](self.find_symbol),
            types[1]["f3"](lambda *_: None), types[1]["f4"](lambda *_: -1), types[1]["f5"](lambda *_: 0))
        self.process = Process(
            types[2]["f0"](lambda process: 0), types[2]["f1"](lambda process: 1), types[2]["f2"](self.fetch),
            types[2]["f3"](lambda process, source, target, size: ctypes.memmove(target, source, size) and None))

    def put(self, what, info):
        self.infos[what] = info

    @staticmethod
    def sizes(process, sizes):
        sizes[0] = Sizes(2, 4, 8, 8, 8, 1, 8)

    def find_symbol(self, image, name, address):
        if name != b"mbx_see_root" or self.root == 0:
            return NO_INFORMATION
        address[0] = self.root
        return OK

    @staticmethod
    def fetch(process, address, size, target):
        try:
            ctypes.memmove(target, bytes(gdb.selected_inferior().read_memory(address, size)), size)
            return OK
        except (gdb.MemoryError, gdb.error):
            return NO_INFORMATION

    def must(self, status):
        if status != OK:
            raise gdb.GdbError("mbx queues: " + self.library.mqs_dll_error_string(status).decode())

    def communicators(self):
        """(communicator, its operations) of the process whose layout lies at self.root"""
        one = ctypes.c_void_p(1)
        self.library.mqs_setup_basic_callbacks(ctypes.byref(self.basic))
        self.must(self.library.mqs_setup_image(one, ctypes.byref(self.image)))
        self.must(self.library.mqs_setup_process(one, ctypes.byref(self.process)))
        try:
            self.must(self.library.mqs_update_communicator_list(one))
            status = self.library.mqs_setup_communicator_iterator(one)
            while status == OK:
                communicator = Communicator()
                self.must(self.library.mqs_get_communicator(one, ctypes.byref(communicator)))
                yield communicator, [pair for which, word in CLASSES for pair in self.operations(one, which, word)]
                status = self.library.mqs_next_communicator(one)
        finally:
            self.library.mqs_destroy_process_info(ctypes.c_void_p(self.infos["process"]))
            self.library.mqs_destroy_image_info(ctypes.c_void_p(self.infos["image"]))

    def operations(self, one, which, word):
        self.must(self.library.mqs_setup_operation_iterator(one, which))
        while True:
            operation = Operation()
            if self.library.mqs_next_operation(one, ctypes.byref(operation)) != OK:
                return
            yield operation, word


def roots():
    """Where the layouts of the process lie: as the pages of its endpoints say, or a symbol."""
    found = []
    try:
        mappings = gdb.execute("info proc mappings", to_string=True)
    except gdb.error:
        mappings = ""
    for line in mappings.splitlines():
        if PAGE_NAME not in line:
            continue
        try:
            head = bytes(gdb.selected_inferior().read_memory(int(line.split()[0], 16), 256))
        except (gdb.MemoryError, gdb.error):
            continue
        root = struct.unpack_from("<Q", head, HEAD_ROOT)[0]
        if head[:8] == PAGE_MAGIC and root not in found:
            found.append(root)
    if not found:
        try:
            found.append(int(gdb.parse_and_eval("(unsigned long)&mbx_see_root")))
        except gdb.error:
            raise gdb.GdbError("mbx queues: this process has no endpoint of Matchbox, and no symbol mbx_see_root: it does not run over it")
    return found


def words(operation, word):
    text = operation.text
    kind, _, more = text[0].value.decode().partition(", ")
    known = text[2].value == b""
    peer = "any source" if operation.rank == -1 else f"{operation.rank}" if known else f"peer {operation.rank}"
    tag = "any tag" if operation.tag_wild else f"tag {operation.tag}"
    return f"{kind:<10}  {word} {peer}, {tag}, {operation.length} bytes" + (f", {more}" if more else "")


class Mbx(gdb.Command):
    """Commands that show what Matchbox knows of this process."""

    def __init__(self):
        super().__init__("mbx", gdb.COMMAND_STATUS, gdb.COMPLETE_COMMAND, True)


class Queues(gdb.Command):
    """mbx queues [-v]: the receives, messages and sends that wait in this rank, by communicator.  -v: also their envelopes.

Ranks are numbers in MPI_COMM_WORLD; `peer N` is a peer whose rank is not known here, as through the provider for libfabric."""

    def __init__(self):
        super().__init__("mbx queues", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        if argument not in ("", "-v"):
            raise gdb.GdbError(f"mbx queues: -v or nothing, not '{argument}'")
        if gdb.selected_inferior().pid == 0:
            raise gdb.GdbError("mbx queues: no process is being debugged, and no core file is open")
        debugger = Debugger()
        for debugger.root in roots():
            for communicator, operations in debugger.communicators():
                size = f" of {communicator.size}" if communicator.size else ""
                print(f"{communicator.name.decode(errors='replace')}: rank {communicator.local_rank}{size}")
                for operation, word in operations:
                    print("  " + words(operation, word) + (f"; {operation.text[1].value.decode()}" if argument else ""))


Mbx()
Queues()
