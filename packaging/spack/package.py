# SPDX-License-Identifier: BSD-3-Clause
# A recipe for Spack: in a repository of one's own, packages/matchbox/package.py.
from spack.package import *


class Matchbox(MesonPackage):
    """MPI point-to-point messages whose matching does not search queues: a library, a libfabric
    provider, a component for Open MPI, and a library with UCX's interface."""

    license("BSD-3-Clause")

    # `spack develop --path SOURCE matchbox@main` builds what lies in SOURCE
    version("main", branch="main")

    variant("network", default=True, description="Other hosts, and the provider, through libfabric")
    variant("openmpi", default=False, description="The component for Open MPI")
    variant("ucp", default=False, description="The library with the interface of UCX's libucp")
    variant("pmix", default=True, description="Jobs of launchers that speak PMIx")
    variant("hwloc", default=True, description="Binding of ranks by mbx run")
    variant("verbs", default=False, description="Matching in hardware, through libibverbs")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3:", type="build")
    depends_on("libfabric@1.17:", when="+network")
    depends_on("openmpi@4.1:5.0", when="+openmpi")
    depends_on("ucx@1.13:", when="+ucp")  # its headers; and its other libraries at run time
    depends_on("pmix@3:", when="+pmix")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("rdma-core", when="+verbs")

    # the headers of Open MPI 5 include headers of PMIx
    conflicts("~pmix", when="+openmpi ^openmpi@5:", msg="The component for Open MPI 5 needs PMIx")
    conflicts("platform=darwin", msg="Matchbox runs on Linux")

    def meson_args(self):
        def feature(name, variant):
            return f"-D{name}={'enabled' if self.spec.satisfies('+' + variant) else 'disabled'}"

        return ["-Dtests=false", "-Dbench=false", "-Dexamples=false", "-Dmpi=disabled",
                # what the tools load if it is there: not looked for, so that a build has what its spec says
                "-Dlibdw=disabled", "-Dcurses=disabled", "-Dotf2=disabled", "-Dusdt=disabled",
                feature("network", "network"), feature("provider", "network"), feature("openmpi", "openmpi"), feature("ucp", "ucp"),
                feature("pmix", "pmix"), feature("hwloc", "hwloc"), feature("verbs", "verbs")]
