// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Preloaded into a program: each rdma_connect() but the first one waits until the file that T3_CONNECT_AFTER
// names exists. A perftest connects twice; between the two its server ends its listener and listens again,
// and a client that connects meanwhile is rejected.
#include <cstdlib>

#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

extern "C" int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
    static bool first = true;
    const char* const file = std::getenv("T3_CONNECT_AFTER");
    while (!first && file && access(file, F_OK) != 0)
        usleep(10000);
    first = false;
    return reinterpret_cast<decltype(&rdma_connect)>(dlsym(RTLD_NEXT, "rdma_connect"))(id, param);
}
