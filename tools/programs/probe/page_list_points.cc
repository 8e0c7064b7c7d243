// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Probes of page lists: requests that name the list of a region, and windows on a region.
#include <bit>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>
#include <optional>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "helpers.hh"
#include "include/hw/t3_tpt.h"
#include "include/uapi/t3_abi.h"
#include "points.hh"

namespace probe {

namespace {

// REG_MR by write(), since libibverbs hides the page list's index.
class RawRegion {
public:
    RawRegion(ibv_pd* pd, void* memory, size_t size, int access = local) : context_(pd->context) {
        struct {
            ib_uverbs_cmd_hdr header;
            ib_uverbs_reg_mr command;
        } request{};
        alignas(8) uint8_t response[sizeof(ib_uverbs_reg_mr_resp) + sizeof(t3_reg_mr_resp)]{};
        request.header.command = IB_USER_VERBS_CMD_REG_MR;
        request.header.in_words = sizeof(request) / 4;
        request.header.out_words = sizeof(response) / 4;
        request.command.response = reinterpret_cast<uintptr_t>(response);
        request.command.start = request.command.hca_va = reinterpret_cast<uintptr_t>(memory);
        request.command.length = size;
        request.command.pd_handle = pd->handle;
        request.command.access_flags = static_cast<uint32_t>(access);
        if (write(context_->cmd_fd, &request, sizeof(request)) != static_cast<ssize_t>(sizeof(request)))
            throw NotObserved{std::string("REG_MR by write(): ") + std::strerror(errno)};
        ib_uverbs_reg_mr_resp core;
        t3_reg_mr_resp driver;
        std::memcpy(&core, response, sizeof(core));
        std::memcpy(&driver, response + sizeof(core), sizeof(driver));
        handle_ = core.mr_handle;
        stag = core.lkey;
        page_list = driver.pbl_addr;
    }
    ~RawRegion() {
        struct {
            ib_uverbs_cmd_hdr header;
            ib_uverbs_dereg_mr command;
        } request{};
        request.header.command = IB_USER_VERBS_CMD_DEREG_MR;
        request.header.in_words = sizeof(request) / 4;
        request.command.mr_handle = handle_;
        if (write(context_->cmd_fd, &request, sizeof(request)) < 0) {
        }
    }
    RawRegion(const RawRegion&) = delete;
    RawRegion& operator=(const RawRegion&) = delete;

    uint32_t stag, page_list;

private:
    ibv_context* context_;
    uint32_t handle_;
};

// A window of type 1. Throws NotObserved if the driver refuses it.
class Window {
public:
    explicit Window(ibv_pd* pd) : mw_(ibv_alloc_mw(pd, IBV_MW_TYPE_1)) {
        if (!mw_)
            throw NotObserved{std::string("no memory window (parameter memory_windows of iw_cxgb3): ") +
                              std::strerror(errno)};
    }
    ~Window() { ibv_dealloc_mw(mw_); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    uint32_t stag() const { return mw_->rkey; }

private:
    ibv_mw* mw_;
};

// Binds 64 bytes at the start of the region, with the page list entry this far behind the right one. Returns
// whether it succeeded.
bool bind_window(Connection& card, const Window& window, const RawRegion& region, uint64_t address,
                 uint32_t skip) {
    t3_wr_bind_mw wr{};
    wr.type = 1;
    wr.perms = T3_PERM_REMOTE_WRITE;
    wr.mr_stag = to_be32(region.stag);
    wr.mw_stag = to_be32(window.stag());
    wr.mw_len = to_be32(64);
    wr.mw_va = to_be64(address);
    wr.mr_pbl_addr = to_be32(region.page_list + skip);
    wr.mr_pagesz =
        static_cast<uint8_t>(std::countr_zero(static_cast<unsigned long>(sysconf(_SC_PAGESIZE))) - 12);
    card.post(&wr, 6, T3_WR_OP_BIND_MW, T3_WR_F_COMPLETION);
    return card.sends().next(2 * quiet_ms).has_value();
}

constexpr int bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

} // namespace

Answer form_of_a_receive(Case& c) {
    constexpr size_t size = 3 * 4096, at = 64;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), size, local); // only for its memory
    RawRegion region(card.pd(), memory.bytes(), size);
    trace.wait({"t3_mr: register", text("stag %#x ", region.stag)}, reply_limit_ms);
    const auto made = trace.with({"t3_mr: register", text("stag %#x ", region.stag)});
    if (made.empty())
        throw NotObserved{"the trace does not show the region"};
    const unsigned shift = number_after(made[0], "pages of 2^");
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.pagesz[0] = static_cast<uint8_t>(shift - 12);
    wr.pbl_addr[0] = to_be32(region.page_list);
    // An offset in the page of the list's index: not an address of the region.
    wr.sge[0] = {to_be32(region.stag), to_be32(at),
                 to_be64((memory.address() & ((uint64_t{1} << shift) - 1)) + at)};
    card.put(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    card.connect();
    const auto data = pattern(at);
    c.peer.send(message(1, data));
    const auto received = card.receives().next(reply_limit_ms);
    if (received && received->status() == 0 && memory.holds(data, at))
        return {true, "a receive with a page list index takes an offset in its page (form B)"};
    const auto errors = card.error_statuses(trace);
    return {false, text("a receive with a page list index is refused, status %#x",
                        errors.empty() ? 0 : errors.front())};
}

// Two regions of a page each: the receive names the first one and the page list of the second one.
Answer region_of_a_receive(Case& c) {
    constexpr size_t size = 4096, at = 64;
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region named(card.pd(), size, local), listed(card.pd(), size, local); // only for their memory
    RawRegion first(card.pd(), named.bytes(), size), second(card.pd(), listed.bytes(), size);
    t3_wr_recv wr{};
    wr.num_sge = to_be32(1);
    wr.pbl_addr[0] = to_be32(second.page_list);
    wr.sge[0] = {to_be32(first.stag), to_be32(at), to_be64(at)};
    card.put(&wr, 13, T3_WR_OP_RECV, T3_WR_F_COMPLETION);
    card.connect();
    c.peer.send(message(1, pattern(at)));
    if (card.receives().next(2 * quiet_ms))
        return {false, listed.holds(pattern(at), at)
                           ? "a receive reaches a page list that is not its region's"
                           : "a receive with another region's page list is accepted"};
    return {true, text("a receive with another region's page list is refused, status %#x",
                       card.expect_error(trace))};
}

Answer page_list_of_a_bind(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 2 * 4096, local); // only for its memory
    RawRegion region(card.pd(), memory.bytes(), 2 * 4096, bindable);
    Window window(card.pd());
    card.connect();
    if (bind_window(card, window, region, memory.address(), 1))
        return {false, "a bind with a page list entry that is not the address's is accepted"};
    return {true, text("a bind with a page list entry that is not the address's is refused, status %#x",
                       card.expect_error(trace))};
}

Answer region_of_a_window(Case& c) {
    Trace trace;
    Connection card(c.peer, c.address, c.port);
    Region memory(card.pd(), 4096, local), inbox(card.pd(), 64, local);
    std::optional<RawRegion> region;
    region.emplace(card.pd(), memory.bytes(), 4096, bindable);
    Window window(card.pd());
    card.put_receive(inbox, 64);
    card.connect();
    if (!bind_window(card, window, *region, memory.address(), 0))
        throw NotObserved{text("the window cannot be bound, status %#x", card.expect_error(trace))};
    region.reset();
    Segment write;
    write.opcode = RDMAP_WRITE;
    write.stag = window.stag();
    write.to = memory.address();
    write.payload = pattern(8);
    c.peer.send(write);
    c.peer.send(message(1));
    if (card.receives().next(2 * quiet_ms))
        return {false, "a window is used after the end of its region"};
    return {true, text("a window ends with its region, status %#x", card.expect_error(trace))};
}

} // namespace probe
