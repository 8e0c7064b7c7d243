// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Allocates objects of one kind until it fails: --what=rqt (queue pairs with long receive queues) or
// --what=pbl (regions of scattered pages). It succeeds if the error is ENOMEM, and as many objects can be
// allocated again after all were freed.
#include "program.hh"

#include <cerrno>
#include <cstring>
#include <memory>

#include <sys/mman.h>
#include <unistd.h>

using namespace prog;

namespace {

constexpr unsigned far_too_many = 65536;

class Resource {
public:
    virtual ~Resource() = default;
    // Allocates one more; 0 or an errno.
    virtual int take(Endpoint& end) = 0;
    virtual void give_back() = 0;
    virtual unsigned size() const = 0;
};

class ReceiveQueues : public Resource {
public:
    int take(Endpoint& end) override {
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = end.send_cq;
        attr.recv_cq = end.recv_cq;
        attr.cap = {.max_send_wr = 1,
                    .max_recv_wr = 1023,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        errno = 0;
        ibv_qp* const qp = ibv_create_qp(end.pd, &attr);
        if (!qp)
            return errno;
        qps_.push_back(qp);
        return 0;
    }
    void give_back() override {
        for (ibv_qp* qp : qps_)
            if (const int err = ibv_destroy_qp(qp))
                fail("ibv_destroy_qp: %s", std::strerror(err));
        qps_.clear();
    }
    unsigned size() const override { return static_cast<unsigned>(qps_.size()); }

private:
    std::vector<ibv_qp*> qps_;
};

// A few pages of a file, mapped repeatedly in descending order: no two adjacent pages are adjacent in memory,
// so that each needs its own entry, and the guest needs little memory.
class PageLists : public Resource {
public:
    PageLists() {
        const int file = memfd_create("pages", 0);
        if (file < 0 || ftruncate(file, different * page))
            fail("memfd: %s", std::strerror(errno));
        area_ =
            static_cast<char*>(mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (size_t i = 0; i < pages; i++)
            if (mmap(area_ + i * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                     static_cast<off_t>((different - 1 - i % different) * page)) == MAP_FAILED)
                fail("mmap: %s", std::strerror(errno));
        close(file);
    }
    int take(Endpoint& end) override {
        errno = 0;
        ibv_mr* const mr = ibv_reg_mr(end.pd, area_, pages * page, IBV_ACCESS_LOCAL_WRITE);
        if (!mr)
            return errno;
        mrs_.push_back(mr);
        return 0;
    }
    void give_back() override {
        for (ibv_mr* mr : mrs_)
            if (const int err = ibv_dereg_mr(mr))
                fail("ibv_dereg_mr: %s", std::strerror(err));
        mrs_.clear();
    }
    unsigned size() const override { return static_cast<unsigned>(mrs_.size()); }

private:
    static constexpr size_t pages = 32768, different = 64;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    char* area_;
    std::vector<ibv_mr*> mrs_;
};

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "--what=rqt|pbl [--laps=N]");
    const int laps = args.number("laps", 2);
    Endpoint end(Caps{});
    end.resolve(args);
    Memory memory(end, 4096, IBV_ACCESS_LOCAL_WRITE);
    std::unique_ptr<Resource> resource;
    if (args.value("what", "") == "rqt")
        resource = std::make_unique<ReceiveQueues>();
    else if (args.value("what", "") == "pbl")
        resource = std::make_unique<PageLists>();
    else
        fail("--what must be rqt or pbl");

    unsigned had = 0;
    bool as_much_again = true;
    int refused = 0;
    for (int lap = 0; lap < laps; lap++) {
        do
            refused = resource->take(end);
        while (!refused && resource->size() < far_too_many);
        as_much_again &= lap == 0 || resource->size() == had;
        had = resource->size();
        resource->give_back();
        if (const int err = resource->take(end))
            fail("no object, although all were freed: %s", std::strerror(err));
        resource->give_back();
    }
    Json()
        .add("had", had)
        .add("as_much_again", as_much_again)
        .add("refused", std::strerror(refused))
        .finish(refused == ENOMEM && as_much_again && had > 1);
}
