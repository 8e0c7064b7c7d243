// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Allocates objects of one kind after another (or of those in --what=A,B), each until it is refused, or until
// its memory cgroup (--cgroup=DIRECTORY) has grown by --share=BYTES. Then it prints the count of each kind
// and the reason of its end, and "holding" on a line, and keeps all objects until its standard input ends.
// --unresponsive=ADDRESS is a host that does not reply. It succeeds if every kind ends.
#include "program.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

using namespace prog;

namespace {

constexpr unsigned far_too_many = 100000;
const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// Allocates one object of a kind, which is never freed; returns 0 or an errno.
struct Kind {
    const char* name;
    std::function<int()> allocate;
};

int result(const void* object) {
    return object ? 0 : errno;
}

class Cgroup {
public:
    // Opened first: later there may be no free descriptor.
    explicit Cgroup(const std::string& directory)
        : fd_(directory.empty() ? -1 : open((directory + "/memory.current").c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ < 0 && !directory.empty())
            fail("%s: %s", directory.c_str(), std::strerror(errno));
    }
    // Bytes of memory charged to it; 0 without a cgroup.
    long used() const {
        char text[32] = {};
        if (fd_ >= 0 && pread(fd_, text, sizeof(text) - 1, 0) <= 0)
            fail("memory.current: %s", std::strerror(errno));
        return std::atol(text);
    }

private:
    int fd_;
};

int create_qp(Endpoint& end, unsigned recv_wr) {
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = end.send_cq;
    attr.recv_cq = end.recv_cq;
    attr.cap = {1, recv_wr, 1, 1, 0};
    return result(ibv_create_qp(end.pd, &attr));
}

// A few pages of a file, mapped in descending order, so that each needs its own entry in a page list.
class Scattered {
public:
    static constexpr size_t pages = 32768, different = 64;
    const size_t bytes = pages * page;
    Scattered() {
        const int file = memfd_create("pages", 0);
        if (file < 0 || ftruncate(file, different * page))
            fail("memfd: %s", std::strerror(errno));
        area_ = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (size_t i = 0; i < pages; i++)
            if (mmap(area_ + i * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                     static_cast<off_t>((different - 1 - i % different) * page)) == MAP_FAILED)
                fail("mmap: %s", std::strerror(errno));
        close(file);
    }
    char* area() const { return area_; }

private:
    char* area_;
};

sockaddr_in ip(const std::string& address, uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    if (!address.empty() && inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1)
        fail("%s is not an IPv4 address", address.c_str());
    return in;
}

rdma_event_channel* new_channel() {
    rdma_event_channel* channel = rdma_create_event_channel();
    if (!channel)
        fail("rdma_create_event_channel: %s", std::strerror(errno));
    return channel;
}

// The id is never destroyed.
int listen_on(rdma_event_channel* channel, const std::string& address, uint16_t port) {
    sockaddr_in at = ip(address, port);
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) ||
        rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&at)) || rdma_listen(id, 1024))
        return errno;
    return 0;
}

// The result is an event that is never read.
int resolve_address(rdma_event_channel* channel, sockaddr_in there) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) ||
        rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&there), 2000))
        return errno;
    return 0;
}

void await(rdma_event_channel* channel, rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    if (!wait_readable(channel->fd, in_ms(10000)) || rdma_get_cm_event(channel, &event))
        fail("no event %s", rdma_event_str(type));
    if (event->event != type)
        fail("%s, status %d", rdma_event_str(event->event), event->status);
    rdma_ack_cm_event(event);
}

int open_connection(rdma_event_channel* channel, sockaddr_in destination, uint32_t qp_num) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) ||
        rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&destination), 2000))
        return errno;
    await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id, 2000))
        return errno;
    await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param param{};
    param.qp_num = qp_num;
    return rdma_connect(id, &param) ? errno : 0;
}

// The doorbell pages of this process: write-only mappings of the device.
std::vector<volatile uint32_t*> doorbells() {
    std::vector<volatile uint32_t*> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find(" -w-s ") != std::string::npos && line.find("uverbs") != std::string::npos)
            found.push_back(reinterpret_cast<volatile uint32_t*>(std::stoul(line, nullptr, 16)));
    return found;
}

// Rings the doorbells of an idle queue pair for a second.
size_t flood(const std::vector<volatile uint32_t*>& pages, uint32_t qp_num) {
    size_t rung = 0;
    for (const auto until = in_ms(1000); !pages.empty() && Clock::now() < until;)
        for (int i = 0; i < 100; i++, rung++)
            *pages[rung % pages.size()] = qp_num;
    return rung;
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv,
                    "[--what=KIND,KIND...] [--cgroup=DIRECTORY --share=BYTES] --unresponsive=ADDRESS");
    const Cgroup cgroup(args.value("cgroup", ""));
    const long share = args.number("share", 0);
    std::vector<std::string> selected;
    std::stringstream list(args.value("what", ""));
    for (std::string name; std::getline(list, name, ',');)
        selected.push_back(name);

    Endpoint end{Caps{}};
    end.resolve(args);
    ibv_context* const verbs = end.id->verbs;
    ibv_device_attr limits{};
    if (ibv_query_device(verbs, &limits))
        fail("ibv_query_device");
    const uint32_t qp_num = end.id->qp->qp_num;
    const auto doorbell_pages = doorbells(); // later there may be no free descriptor to read the maps
    std::vector<uint8_t, WholePages<uint8_t>> memory(page);
    std::unique_ptr<Scattered> scattered;
    rdma_event_channel *const unread = new_channel(), *const opens = new_channel(),
                              *const ids = new_channel();
    uint16_t port = 20000;
    rdma_cm_id* id = nullptr;

    const Kind kinds[] = {
        {"PDs", [&] { return result(ibv_alloc_pd(verbs)); }},
        {"large CQs", [&] { return result(ibv_create_cq(verbs, limits.max_cqe, nullptr, nullptr, 0)); }},
        {"CQs", [&] { return result(ibv_create_cq(verbs, 1, nullptr, nullptr, 0)); }},
        {"large QPs", [&] { return create_qp(end, 1023); }},
        {"QPs", [&] { return create_qp(end, 1); }},
        {"page lists",
         [&] {
             if (!scattered)
                 scattered = std::make_unique<Scattered>();
             return result(ibv_reg_mr(end.pd, scattered->area(), scattered->bytes, IBV_ACCESS_LOCAL_WRITE));
         }},
        {"MRs", [&] { return result(ibv_reg_mr(end.pd, memory.data(), page, IBV_ACCESS_LOCAL_WRITE)); }},
        {"MWs", [&] { return result(ibv_alloc_mw(end.pd, IBV_MW_TYPE_1)); }},
        {"ids", [&] { return rdma_create_id(ids, &id, nullptr, RDMA_PS_TCP) ? errno : 0; }},
        {"listeners", [&] { return listen_on(ids, "", port++); }},
        {"connects",
         [&] { return open_connection(opens, ip(args.value("unresponsive", ""), 7473), qp_num); }},
        {"unread events", [&] { return resolve_address(unread, ip(args.address, args.port)); }},
        {"contexts", [&] { return result(ibv_open_device(verbs->device)); }},
        {"completion channels", [&] { return result(ibv_create_comp_channel(verbs)); }},
        {"event channels", [&] { return result(rdma_create_event_channel()); }},
    };

    Json json;
    bool bounded = true;
    std::string text = "{";
    for (const auto& kind : kinds) {
        bool chosen = selected.empty();
        for (const auto& name : selected)
            chosen |= name == kind.name;
        if (!chosen)
            continue;
        const long before = cgroup.used();
        unsigned had = 0;
        std::string why = "no end";
        for (; had < far_too_many; had++) {
            if (share && cgroup.used() > before + share) {
                why = "cgroup";
                break;
            }
            if (const int error = kind.allocate()) {
                why = std::strerror(error);
                break;
            }
        }
        bounded &= why != "no end";
        const long grown = cgroup.used() - before;
        text += std::string(text.size() > 1 ? ", \"" : "\"") + kind.name + "\": [" + std::to_string(had) +
                ", \"" + why + "\", " + std::to_string(grown) + "]";
        std::fprintf(stderr, "%s: %u, %s, %ld bytes\n", kind.name, had, why.c_str(), grown);
    }
    const size_t rung = selected.empty() ? flood(doorbell_pages, qp_num) : 0;
    std::printf("%s, \"doorbells\": [%zu, \"\", 0]}\nholding\n", text.c_str(), rung);
    std::fflush(stdout);
    for (char c; read(STDIN_FILENO, &c, 1) > 0;)
        ;
    _exit(bounded ? 0 : 1); // the kernel releases the objects
}
