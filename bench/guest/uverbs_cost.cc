// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Instructions of verbs commands, as a guest's TSC counts them when QEMU runs with -icount. A round is the
// lifetime of a context, from opening the device to closing it, with the commands that libibverbs would
// send, but without a library.
//
//     t3-uverbs-cost DRIVER-ID write|ioctl DEVICE...
//
// Prints a line "CASE DEVICE INSTRUCTIONS" for each command and device. The figure is the lowest of the
// rounds, since interrupts, callbacks of RCU and new pages for slabs add to the others. The devices take
// turns.

#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int warm_up = 5;
constexpr int rounds = 101;
constexpr size_t small = 4096;
constexpr size_t large = 1 << 20;
constexpr uint32_t depth = 16;

[[noreturn]] void fail(const std::string& what) {
    std::perror(what.c_str());
    std::exit(1);
}

uint64_t now() {
    return __rdtsc();
}

uint64_t address_of(const void* what) {
    return reinterpret_cast<uintptr_t>(what);
}

// A request or a response: space for the header of write(), the core's part, and behind it the driver's
// part. The driver's part has the same length for every driver, and is zero.
template <typename Core> class Message {
public:
    Core* operator->() { return reinterpret_cast<Core*>(bytes_ + header_size); }
    Core* core() { return operator->(); }
    void* driver() { return bytes_ + header_size + sizeof(Core); }
    void* whole() { return bytes_; }

    static constexpr size_t header_size = sizeof(ib_uverbs_cmd_hdr);
    static constexpr size_t driver_size = 64;
    static constexpr size_t size = sizeof(Core) + driver_size;

private:
    alignas(8) char bytes_[header_size + size]{};
};

template <typename Request, typename Response> struct Command {
    Message<Request> request;
    Message<Response> response;
};

class Abi {
public:
    virtual ~Abi() = default;
    // Creates a usable context with its file of asynchronous events. Returns that file's
    // descriptor.
    virtual int context(int fd) = 0;
    virtual uint32_t alloc_pd(int fd) = 0;
    virtual uint32_t reg_mr(int fd, uint32_t pd, const void* memory, size_t length) = 0;
    virtual uint32_t create_cq(int fd) = 0;
    virtual uint32_t create_qp(int fd, uint32_t pd, uint32_t cq) = 0;
    virtual void modify_qp(int fd, uint32_t qp) = 0;
    virtual void destroy_qp(int fd, uint32_t qp) = 0;
    virtual void destroy_cq(int fd, uint32_t cq) = 0;
    virtual void dereg_mr(int fd, uint32_t mr) = 0;
    virtual void dealloc_pd(int fd, uint32_t pd) = 0;
    // A system call that is refused at once.
    virtual void nothing(int fd) = 0;
};

using RegMr = Command<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>;

RegMr mr_command(uint32_t pd, const void* memory, size_t length) {
    RegMr command;
    command.request->start = command.request->hca_va = address_of(memory);
    command.request->length = length;
    command.request->pd_handle = pd;
    command.request->access_flags = IB_UVERBS_ACCESS_LOCAL_WRITE;
    return command;
}

Message<ib_uverbs_modify_qp> to_init(uint32_t qp) {
    constexpr uint32_t state = 1 << 0, access = 1 << 3, pkey = 1 << 4, port = 1 << 5;
    Message<ib_uverbs_modify_qp> request;
    request->qp_handle = qp;
    request->attr_mask = state | access | pkey | port;
    request->qp_state = 1; // INIT
    request->port_num = 1;
    request->qp_access_flags = IB_UVERBS_ACCESS_REMOTE_WRITE;
    return request;
}

// Commands that Self, write() or ioctl, sends unchanged.
template <typename Self> class Carrier : public Abi {
public:
    uint32_t alloc_pd(int fd) final {
        Command<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp> command;
        self().carry(fd, IB_USER_VERBS_CMD_ALLOC_PD, command);
        return command.response->pd_handle;
    }
    uint32_t reg_mr(int fd, uint32_t pd, const void* memory, size_t length) final {
        RegMr command = mr_command(pd, memory, length);
        self().carry(fd, IB_USER_VERBS_CMD_REG_MR, command);
        return command.response->mr_handle;
    }

private:
    Self& self() { return static_cast<Self&>(*this); }
};

// ---- write()

class Write final : public Carrier<Write> {
public:
    int context(int fd) override {
        Command<ib_uverbs_get_context, ib_uverbs_get_context_resp> command;
        carry(fd, IB_USER_VERBS_CMD_GET_CONTEXT, command);
        return static_cast<int>(command.response->async_fd);
    }
    uint32_t create_cq(int fd) override {
        Command<ib_uverbs_create_cq, ib_uverbs_create_cq_resp> command;
        command.request->cqe = depth;
        command.request->comp_channel = -1;
        carry(fd, IB_USER_VERBS_CMD_CREATE_CQ, command);
        return command.response->cq_handle;
    }
    uint32_t create_qp(int fd, uint32_t pd, uint32_t cq) override {
        Command<ib_uverbs_create_qp, ib_uverbs_create_qp_resp> command;
        ib_uverbs_create_qp& request = *command.request.core();
        request.pd_handle = pd;
        request.send_cq_handle = request.recv_cq_handle = cq;
        request.max_send_wr = request.max_recv_wr = depth;
        request.max_send_sge = request.max_recv_sge = 1;
        request.qp_type = IB_UVERBS_QPT_RC;
        carry(fd, IB_USER_VERBS_CMD_CREATE_QP, command);
        return command.response->qp_handle;
    }
    void modify_qp(int fd, uint32_t qp) override {
        auto request = to_init(qp);
        transfer(fd, IB_USER_VERBS_CMD_MODIFY_QP, request, sizeof(ib_uverbs_modify_qp), 0);
    }
    void destroy_qp(int fd, uint32_t qp) override {
        Command<ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp> command;
        command.request->qp_handle = qp;
        carry(fd, IB_USER_VERBS_CMD_DESTROY_QP, command, 0);
    }
    void destroy_cq(int fd, uint32_t cq) override {
        Command<ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp> command;
        command.request->cq_handle = cq;
        carry(fd, IB_USER_VERBS_CMD_DESTROY_CQ, command, 0);
    }
    void dereg_mr(int fd, uint32_t mr) override {
        Message<ib_uverbs_dereg_mr> request;
        request->mr_handle = mr;
        transfer(fd, IB_USER_VERBS_CMD_DEREG_MR, request, sizeof(ib_uverbs_dereg_mr), 0);
    }
    void dealloc_pd(int fd, uint32_t pd) override {
        Message<ib_uverbs_dealloc_pd> request;
        request->pd_handle = pd;
        transfer(fd, IB_USER_VERBS_CMD_DEALLOC_PD, request, sizeof(ib_uverbs_dealloc_pd), 0);
    }
    void nothing(int fd) override {
        constexpr char less_than_a_header[4]{};
        if (write(fd, less_than_a_header, sizeof(less_than_a_header)) >= 0)
            fail("write of too little");
    }

private:
    friend class Carrier<Write>;
    // A command with a response, and with the driver's part in both directions if it has one.
    template <typename Request, typename Response>
    void carry(int fd, uint32_t number, Command<Request, Response>& command,
               size_t driver = Message<Request>::driver_size) {
        command.request->response = address_of(command.response.core());
        transfer(fd, number, command.request, sizeof(Request) + driver, sizeof(Response) + driver);
    }
    template <typename Request>
    void transfer(int fd, uint32_t number, Message<Request>& request, size_t in, size_t out) {
        const size_t length = Message<Request>::header_size + in;
        auto& header = *static_cast<ib_uverbs_cmd_hdr*>(request.whole());
        header.command = number;
        header.in_words = length / 4;
        header.out_words = out / 4;
        if (write(fd, request.whole(), length) != static_cast<ssize_t>(length))
            fail("write");
    }
};

// ---- ioctl

class Ioctl final : public Carrier<Ioctl> {
public:
    explicit Ioctl(uint32_t driver) : driver_(driver) {}

    int context(int fd) override {
        uint32_t vectors = 0;
        uint64_t support = 0;
        Driver driver;
        Attributes get(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, driver_);
        get.out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, vectors)
            .out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, support);
        get.driver(driver).send(fd);
        Attributes events(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, driver_);
        events.handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0).send(fd);
        return static_cast<int>(events.value(0));
    }
    uint32_t create_cq(int fd) override {
        uint32_t cqe = 0;
        Driver driver;
        Attributes call(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, driver_);
        call.handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0).value_of(UVERBS_ATTR_CREATE_CQ_CQE, depth);
        call.value_of(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, uint64_t{1})
            .value_of(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0U);
        call.value_of(UVERBS_ATTR_CREATE_CQ_FLAGS, 0U)
            .out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, cqe)
            .driver(driver)
            .send(fd);
        return static_cast<uint32_t>(call.value(0));
    }
    uint32_t create_qp(int fd, uint32_t pd, uint32_t cq) override {
        ib_uverbs_qp_cap cap{depth, depth, 1, 1, 0}, granted{};
        uint32_t number = 0;
        Driver driver;
        Attributes call(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, driver_);
        call.handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0).handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd);
        call.handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq)
            .handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq);
        call.value_of(UVERBS_ATTR_CREATE_QP_USER_HANDLE, uint64_t{1}).in(UVERBS_ATTR_CREATE_QP_CAP, cap);
        call.constant(UVERBS_ATTR_CREATE_QP_TYPE, IB_UVERBS_QPT_RC).value_of(UVERBS_ATTR_CREATE_QP_FLAGS, 0U);
        call.out(UVERBS_ATTR_CREATE_QP_RESP_CAP, granted).out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, number);
        call.driver(driver).send(fd);
        return static_cast<uint32_t>(call.value(0));
    }
    void modify_qp(int fd, uint32_t qp) override {
        auto request = to_init(qp);
        Attributes call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, driver_);
        call.in(UVERBS_ATTR_CORE_IN, *request.core())
            .constant(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_MODIFY_QP)
            .send(fd);
    }
    void destroy_qp(int fd, uint32_t qp) override {
        ib_uverbs_destroy_qp_resp response{};
        destroy(fd, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, qp, &response);
    }
    void destroy_cq(int fd, uint32_t cq) override {
        ib_uverbs_destroy_cq_resp response{};
        destroy(fd, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, cq, &response);
    }
    void dereg_mr(int fd, uint32_t mr) override {
        destroy<char>(fd, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, mr);
    }
    void dealloc_pd(int fd, uint32_t pd) override {
        destroy<char>(fd, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, pd);
    }
    void nothing(int fd) override {
        if (ioctl(fd, 0) >= 0)
            fail("ioctl of no command");
    }

private:
    friend class Carrier<Ioctl>;
    // The driver's part alone, of methods whose core's part is attributes.
    struct Driver {
        static constexpr size_t driver_size = Message<uint64_t>::driver_size;
        Message<uint64_t> request, response;
    };

    class Attributes {
    public:
        Attributes(uint16_t object, uint16_t method, uint32_t driver) {
            header().object_id = object;
            header().method_id = method;
            header().driver_id = driver;
        }
        Attributes& handle(uint16_t id, uint64_t number) { return add(id, 0, number); }
        Attributes& constant(uint16_t id, uint64_t number) { return add(id, sizeof(number), number); }
        template <typename T> Attributes& value_of(uint16_t id, T number) {
            return add(id, sizeof(number), number);
        }
        template <typename T> Attributes& in(uint16_t id, const T& from) {
            return add(id, sizeof(from), address_of(&from));
        }
        template <typename T> Attributes& out(uint16_t id, T& to) {
            return add(id, sizeof(to), address_of(&to));
        }
        Attributes& driver(const void* request, void* response) {
            add(UVERBS_ATTR_UHW_IN, Driver::driver_size, address_of(request));
            return add(UVERBS_ATTR_UHW_OUT, Driver::driver_size, address_of(response));
        }
        Attributes& driver(Driver& messages) {
            return driver(messages.request.driver(), messages.response.driver());
        }
        void send(int fd) {
            header().length = sizeof(header()) + header().num_attrs * sizeof(ib_uverbs_attr);
            if (ioctl(fd, RDMA_VERBS_IOCTL, bytes_))
                fail("ioctl");
        }
        uint64_t value(size_t index) { return header().attrs[index].data; }

    private:
        ib_uverbs_ioctl_hdr& header() { return *reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes_); }
        Attributes& add(uint16_t id, uint16_t length, uint64_t data) {
            ib_uverbs_attr& attribute = header().attrs[header().num_attrs++];
            attribute.attr_id = id;
            attribute.len = length;
            attribute.flags = id & UVERBS_UDATA_DRIVER_DATA_FLAG ? 0 : UVERBS_ATTR_F_MANDATORY;
            attribute.data = data;
            return *this;
        }
        static constexpr size_t most = 20;
        alignas(8) char bytes_[sizeof(ib_uverbs_ioctl_hdr) + most * sizeof(ib_uverbs_attr)]{};
    };

    // Commands that have no method of their own.
    template <typename Request, typename Response>
    void carry(int fd, uint32_t number, Command<Request, Response>& command) {
        Attributes call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, driver_);
        call.in(UVERBS_ATTR_CORE_IN, *command.request.core());
        call.out(UVERBS_ATTR_CORE_OUT, *command.response.core());
        call.constant(UVERBS_ATTR_WRITE_CMD, number);
        call.driver(command.request.driver(), command.response.driver()).send(fd);
    }
    // The first attribute is the handle, the second, if there is one, the response.
    template <typename Response>
    void destroy(int fd, uint16_t object, uint16_t method, uint32_t handle, Response* response = nullptr) {
        Attributes call(object, method, driver_);
        call.handle(0, handle);
        if (response)
            call.out(1, *response);
        call.send(fd);
    }
    uint32_t driver_;
};

// ---- a round

using Samples = std::map<std::string, std::vector<uint64_t>>;

class Clock {
public:
    Clock(Samples& samples, bool counts) : samples_(samples), counts_(counts) {}
    void start() { started_ = now(); }
    void stop(const char* name) {
        const uint64_t ended = now();
        if (counts_)
            samples_[name].push_back(ended - started_);
    }

private:
    Samples& samples_;
    bool counts_;
    uint64_t started_ = 0;
};

void run_case(Abi& abi, const char* device, const void* memory, Clock clock) {
    clock.start();
    const int fd = open(device, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        fail(device);
    const int events = abi.context(fd);
    clock.stop("open_device");
    clock.start();
    const uint32_t pd = abi.alloc_pd(fd);
    clock.stop("alloc_pd");
    clock.start();
    const uint32_t few = abi.reg_mr(fd, pd, memory, small);
    clock.stop("reg_mr_4k");
    clock.start();
    const uint32_t many = abi.reg_mr(fd, pd, memory, large);
    clock.stop("reg_mr_1m");
    clock.start();
    const uint32_t cq = abi.create_cq(fd);
    clock.stop("create_cq");
    clock.start();
    const uint32_t qp = abi.create_qp(fd, pd, cq);
    clock.stop("create_qp");
    clock.start();
    abi.modify_qp(fd, qp);
    clock.stop("modify_qp");
    clock.start();
    abi.nothing(fd);
    clock.stop("nothing");
    clock.start();
    abi.destroy_qp(fd, qp);
    abi.destroy_cq(fd, cq);
    abi.dereg_mr(fd, many);
    abi.dereg_mr(fd, few);
    abi.dealloc_pd(fd, pd);
    close(events);
    close(fd);
    clock.stop("destroy_all");
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s DRIVER-ID write|ioctl DEVICE...\n", argv[0]);
        return 2;
    }
    Write by_write;
    Ioctl by_ioctl(std::strtoul(argv[1], nullptr, 0));
    Abi& abi = std::strcmp(argv[2], "write") ? static_cast<Abi&>(by_ioctl) : by_write;
    void* memory = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    std::memset(memory, 1, large);

    std::map<std::string, Samples> found;
    for (int round = 0; round < warm_up + rounds; round++)
        for (char** device = argv + 3; *device; device++)
            run_case(abi, *device, memory, Clock(found[*device], round >= warm_up));
    for (auto& [device, samples] : found)
        for (auto& [name, values] : samples)
            std::printf("%s %s %llu\n", name.c_str(), device.c_str(),
                        static_cast<unsigned long long>(*std::min_element(values.begin(), values.end())));
    return 0;
}
