# SPDX-License-Identifier: BSD-3-Clause
"""ports.py - a port for a program that listens."""
import random
import socket


def free_port():
    """Returns a port that nobody here uses, and that the system gives to no client meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(1024, max(first, 2048))
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as taken:
            try:
                taken.bind(("::", port))
                return port
            except OSError:
                pass
