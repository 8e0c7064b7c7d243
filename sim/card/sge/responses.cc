// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/sge/responses.hh"

#include <algorithm>
#include <memory>

#include "sim/card/base/vpd.hh"

namespace t3sim {

namespace ctx = hw::response_context;
namespace fl = hw::free_list_context;

namespace {

/// Maximum number of buffers per packet or message, which bounds the work for tiny buffers.
constexpr std::size_t max_buffers = 64;
/// Messages that one event writes: a return of credits may allow 65,535, and 255 requests of a ring may have
/// one with 64 buffers each. In bytes, of which a message has response_work at least, and each of its buffers
/// buffer_work: each may be the first access to two pages.
constexpr std::size_t event_work = 64 << 10, response_work = 128, buffer_work = 1024;
/// Free lists are polled at this interval, because drivers may add buffers without a doorbell.
constexpr Time buffer_retry = 1'000'000;

constexpr Time core_clocks(std::uint32_t n) {
    return Time{n} * 1'000'000 / core_clock_khz;
}

} // namespace

Responses::Responses(Host& host, EventQueue& events, RegisterBank& regs, Irq& irq, Faults& faults,
                     Counters& counters, std::function<void(unsigned)> drained)
    : host_(&host), events_(events), regs_(regs), irq_(irq), guesses_(faults.guesses), lies_(faults.lies),
      drained_(std::move(drained)), work_(events, event_work), responses_(counters["sge.responses"]),
      interrupts_(counters["sge.data_interrupts"]), bus_errors_(counters["sge.bus_errors"]),
      lost_(counters["sge.messages_lost"]), not_enabled_(counters["sge.messages_while_disabled"]),
      no_queue_(counters["sge.messages_without_queue"]), starved_(counters["sge.response_queue_starved"]),
      no_buffer_(counters["sge.free_list_empty"]), discard_(events) {}

Responses::~Responses() {
    reset();
}

void Responses::reset() {
    for (Queue& queue : queues_) {
        events_.cancel(queue.credit_timer);
        events_.cancel(queue.retry_timer);
        events_.cancel(queue.more_timer);
        discard(queue);
        queue = Queue{};
    }
    lists_ = {};
}

/// Until they are freed the messages count for what all queues may have: the host may fill the queue at once.
void Responses::discard(Queue& queue) {
    const std::size_t bytes = std::exchange(queue.waiting_bytes, 0);
    if (queue.waiting.size() <= Discard::at_a_time) {
        queue.waiting.clear();
        return;
    }
    discarded_bytes_ += bytes;
    discard_.add([this, held = std::make_shared<std::deque<Message>>(std::exchange(queue.waiting, {}))] {
        discarded_bytes_ -= held->back().cost();
        held->pop_back();
        return !held->empty();
    });
}

void Responses::restart(unsigned queue) {
    Queue& q = queues_[queue];
    const bool was_congested = congested(queue);
    q.credits = 0;
    q.tx_credits = {};
    discard(q);
    if (was_congested)
        drained_(queue);
}

void Responses::add_hooks(RegisterHooks& hooks) {
    hooks.on_write(reg::SG_GTS, [this](std::uint32_t value, std::uint32_t) { gts(value); });
    hooks.on_write(reg::SG_RSPQ_CREDIT_RETURN,
                   [this](std::uint32_t value, std::uint32_t) { credit_return(value); });
}

void Responses::bus_error() {
    ++bus_errors_;
    regs_.set_bits(reg::PCIE_PEX_ERR, pex_err_completion);
    irq_.raise(reg::PCIE_INT_CAUSE, pcie_pexerr);
}

/// Whether the queue can receive messages.
bool Responses::ready(unsigned queue) {
    if ((regs_.peek(reg::SG_CONTROL) & hw::sg_control::global_enable) == 0) {
        ++not_enabled_;
        return false;
    }
    const hw::Context& c = queues_[queue].context;
    if (ctx::size.get(c) == 0 || ctx::index.get(c) >= ctx::size.get(c)) {
        ++no_queue_;
        regs_.set_bits(reg::SG_RSPQ_FL_STATUS, hw::rspq_fl_status::disabled(queue));
        irq_.raise(reg::SG_INT_CAUSE, hw::sg_int::rspq_disabled);
        return false;
    }
    return true;
}

/// Writes the next entry of a ring that has a credit. The caller raises the interrupt.
void Responses::write_descriptor(unsigned queue, Descriptor& descriptor) {
    Queue& q = queues_[queue];
    hw::Context& c = q.context;
    const std::uint32_t index = ctx::index.get(c), gen = ctx::gen.get(c);

    std::uint32_t flags = be32(&descriptor[8]) | (gen != 0 ? hw::response::gen1 : 0);
    for (unsigned tx = 0; tx < q.tx_credits.size(); ++tx) {
        const std::uint32_t n = std::min(q.tx_credits[tx], hw::response::max_credits);
        flags |= n << hw::response::credit_shift[tx];
        q.tx_credits[tx] -= n;
    }
    put_be32(&descriptor[8], flags);
    descriptor.back() = static_cast<std::uint8_t>(gen);
    if (lies_.any()) [[unlikely]]
        lies_.response(descriptor);

    // The host polls only the last byte, so write it last.
    constexpr std::size_t last_word = hw::response_size - 4;
    const std::uint64_t addr = ctx::base(c) + std::uint64_t{index} * hw::response_size;
    std::uint32_t raw;
    std::memcpy(&raw, &descriptor[last_word], sizeof raw);
    if (!host_->dma_write(addr, Bytes(descriptor).first(last_word)) ||
        !host_->dma_store(addr + last_word, raw))
        bus_error();

    const bool wrap = index + 1 == ctx::size.get(c);
    ctx::index.set(c, wrap ? 0 : index + 1);
    ctx::gen.set(c, gen ^ (wrap ? 1U : 0U));
    --q.credits;
    ++responses_;
}

void Responses::interrupt(unsigned queue) {
    hw::Context& c = queues_[queue].context;
    if (ctx::armed.get(c) == 0)
        return;
    ctx::armed.set(c, 0);
    ++interrupts_;
    if (ctx::intr_en.get(c) != 0)
        irq_.data_vector(ctx::vector.get(c));
    else
        irq_.data_intx(queue);
}

/// Collects in buffers_ the next buffers of a list for @p length bytes.
Responses::Posted Responses::find_buffers(unsigned list, std::size_t length) {
    const hw::Context& c = lists_[list];
    const std::uint32_t size = fl::size.get(c), entry_size = fl::entry_size(c);
    std::uint32_t index = fl::index(c), gen = fl::gen.get(c);
    if (index >= size || entry_size == 0 || length > std::min<std::size_t>(max_buffers, size) * entry_size)
        return Posted::impossible;
    buffers_.clear();
    const std::size_t need = (length + entry_size - 1) / entry_size;
    while (buffers_.size() < need) {
        // Read the generation first: the host has written the address before it.
        const std::uint64_t at = fl::base(c) + std::uint64_t{index} * hw::free_list_entry;
        std::uint32_t gen2 = 0;
        std::array<std::uint8_t, hw::free_list_entry> entry;
        if (!host_->dma_load(at + 8, gen2) || !host_->dma_read(at, entry)) {
            bus_error();
            return Posted::impossible;
        }
        if ((be32(&entry[8]) & 1) != gen || be32(&entry[4]) >> 31 != gen ||
            (__builtin_bswap32(gen2) & 1) != gen)
            return Posted::no_buffer;
        buffers_.push_back(std::uint64_t{be32(&entry[12])} << 32 | be32(&entry[0]));
        if (++index == size) {
            index = 0;
            gen ^= 1;
        }
    }
    return Posted::done;
}

/// Writes @p pieces, concatenated, into buffers, and a response for each buffer.
Responses::Posted Responses::write_buffers(unsigned queue, Descriptor& descriptor,
                                           std::span<const Bytes> pieces) {
    Queue& q = queues_[queue];
    std::size_t length = 0;
    for (Bytes piece : pieces)
        length += piece.size();
    const bool second = length >= q.context[ctx::threshold.word];
    const unsigned list = 2 * queue + (second ? 1 : 0);
    const bool skips = lies_.any() && lies_.skips_buffer();
    const Posted result = find_buffers(list, length + (skips ? fl::entry_size(lists_[list]) : 0));
    if (result != Posted::done) {
        ++no_buffer_;
        regs_.set_bits(reg::SG_RSPQ_FL_STATUS, hw::rspq_fl_status::fl_empty(list));
        irq_.raise(reg::SG_INT_CAUSE, hw::sg_int::fl_empty);
        return result;
    }
    if (q.credits < buffers_.size())
        return Posted::no_response;

    hw::Context& c = lists_[list];
    const auto used = static_cast<std::uint32_t>(buffers_.size());
    if (skips) [[unlikely]]
        buffers_.erase(buffers_.begin());
    const std::size_t entry_size = fl::entry_size(c);
    auto piece = pieces.begin();
    std::size_t piece_done = 0, done = 0;
    for (std::uint64_t addr : buffers_) {
        const std::size_t part = std::min(entry_size, length - done);
        for (std::size_t filled = 0; filled < part;) {
            const std::size_t n = std::min(piece->size() - piece_done, part - filled);
            if (n != 0 && !host_->dma_write(addr + filled, piece->subspan(piece_done, n)))
                bus_error();
            filled += n;
            piece_done += n;
            if (piece_done == piece->size()) {
                ++piece;
                piece_done = 0;
            }
        }
        Descriptor one = descriptor;
        put_be32(&one[8], be32(&one[8]) | (done == 0 ? hw::response::sop : 0) |
                              (done + part == length ? hw::response::eop : 0));
        put_be32(&one[12], static_cast<std::uint32_t>(part) | (second ? hw::response::free_list_1 : 0));
        write_descriptor(queue, one);
        done += part;
    }
    const std::uint32_t size = fl::size.get(c);
    std::uint32_t index = fl::index(c) + used;
    if (index >= size) {
        index -= size;
        fl::gen.set(c, fl::gen.get(c) ^ 1);
    }
    fl::index_lo.set(c, index & 0xfff);
    fl::index_hi.set(c, index >> 12);
    return Posted::done;
}

Responses::Posted Responses::try_post(unsigned queue, Message& message) {
    if (work_.left() == 0)
        return Posted::later;
    buffers_.clear();
    const Posted result = post_now(queue, message);
    work_.use(std::max({message.body.size(), buffers_.size() * buffer_work, response_work}));
    return result;
}

Responses::Posted Responses::post_now(unsigned queue, Message& message) {
    if (queues_[queue].credits == 0)
        return Posted::no_response;
    if (message.body.empty()) {
        write_descriptor(queue, message.descriptor);
        return Posted::done;
    }
    const Bytes pieces[] = {message.body};
    return write_buffers(queue, message.descriptor, pieces);
}

void Responses::post(unsigned queue, Message&& message) {
    Queue& q = queues_[queue];
    if (!ready(queue))
        return;
    Posted result = q.waiting.empty() ? try_post(queue, message) : Posted::no_response;
    switch (result) {
    case Posted::done:
        interrupt(queue);
        return;
    case Posted::impossible:
        ++lost_;
        return;
    case Posted::no_buffer:
        wait_for_buffers(queue);
        break;
    case Posted::later:
        continue_later(queue);
        break;
    case Posted::no_response:
        ++starved_;
        regs_.set_bits(reg::SG_RSPQ_FL_STATUS, hw::rspq_fl_status::starved(queue));
        break;
    }
    if (q.waiting.size() < waiting_limit && q.waiting_bytes + message.cost() <= waiting_bytes_limit) {
        q.waiting_bytes += message.cost();
        while (discarded_bytes_ != 0 &&
               waiting_bytes() + discarded_bytes_ > queues_.size() * waiting_bytes_limit)
            discard_.free(1);
        q.waiting.push_back(std::move(message));
    } else {
        ++lost_;
    }
}

std::size_t Responses::waiting_bytes() const {
    std::size_t sum = 0;
    for (const Queue& queue : queues_)
        sum += queue.waiting_bytes;
    return sum;
}

void Responses::wait_for_buffers(unsigned queue) {
    Queue& q = queues_[queue];
    events_.cancel(q.retry_timer);
    q.retry_timer = events_.after(buffer_retry, [this, queue] { wake(queue); });
}

void Responses::continue_later(unsigned queue) {
    if (queues_[queue].more_timer == EventQueue::Id{})
        queues_[queue].more_timer = events_.after(0, [this, queue] {
            queues_[queue].more_timer = {};
            wake(queue);
        });
}

/// Credits or buffers may be available: writes waiting messages in order.
void Responses::wake(unsigned queue) {
    Queue& q = queues_[queue];
    if (!q.waiting.empty() && ready(queue)) {
        const bool was_congested = congested(queue);
        bool written = false;
        while (!q.waiting.empty()) {
            const Posted result = try_post(queue, q.waiting.front());
            if (result == Posted::later)
                continue_later(queue);
            if (result == Posted::no_buffer)
                wait_for_buffers(queue);
            if (result != Posted::done && result != Posted::impossible)
                break;
            if (result == Posted::impossible)
                ++lost_;
            else
                written = true;
            q.waiting_bytes -= q.waiting.front().cost();
            q.waiting.pop_front();
        }
        if (written)
            interrupt(queue);
        if (was_congested && !congested(queue))
            drained_(queue);
    }
    flush_credits(queue);
}

std::optional<RingState> Responses::ring_state(unsigned number) const {
    if (number < lists_.size()) {
        const hw::Context& c = lists_[number];
        if (fl::size.get(c) == 0)
            return std::nullopt;
        return RingState{.type = "free list",
                         .id = number,
                         .base = fl::base(c),
                         .size = fl::size.get(c),
                         .index = fl::index(c),
                         .generation = fl::gen.get(c),
                         .tid = {},
                         .response_queue = {},
                         .credits = {},
                         .waits = {}};
    }
    number -= static_cast<unsigned>(lists_.size());
    if (number >= queues_.size() || ctx::size.get(queues_[number].context) == 0)
        return std::nullopt;
    const Queue& q = queues_[number];
    return RingState{.type = "responses",
                     .id = number,
                     .base = ctx::base(q.context),
                     .size = ctx::size.get(q.context),
                     .index = ctx::index.get(q.context),
                     .generation = ctx::gen.get(q.context),
                     .tid = {},
                     .response_queue = {},
                     .credits = q.credits,
                     .waits = static_cast<std::uint32_t>(q.waiting.size())};
}

bool Responses::post_packet(const RxPacket& packet) {
    const unsigned queue = packet.queue;
    Queue& q = queues_[queue];
    if (!ready(queue) || !q.waiting.empty() || q.credits == 0)
        return false;
    Descriptor descriptor{};
    descriptor[0] = packet.cpl[0];
    descriptor[1] = static_cast<std::uint8_t>(packet.hash_type << 6);
    put_be16(&descriptor[2], static_cast<std::uint16_t>(queue));
    put_be32(&descriptor[4], packet.hash);

    // The pad aligns the IP header in host memory to a word.
    std::array<std::uint8_t, 7 + sizeof packet.cpl> head{};
    const std::size_t pad = hw::sg_control::pkt_shift(regs_.peek(reg::SG_CONTROL));
    std::copy(packet.cpl.begin(), packet.cpl.end(), head.begin() + static_cast<std::ptrdiff_t>(pad));
    const Bytes pieces[] = {Bytes(head).first(pad + packet.cpl.size()), packet.frame[0], packet.frame[1]};
    if (write_buffers(queue, descriptor, pieces) != Posted::done)
        return false;
    interrupt(queue);
    return true;
}

void Responses::post_cpl(unsigned queue, Bytes cpl) {
    if (queue >= queues_.size() || cpl.size() < 4) {
        ++no_queue_;
        return;
    }
    if (probe_) [[unlikely]]
        probe_({.kind = EventKind::cpl, .unit = static_cast<std::uint16_t>(queue)}, cpl);
    Message message;
    message.descriptor[0] = cpl[0];
    put_be16(&message.descriptor[2], static_cast<std::uint16_t>(queue));
    const auto opcode = static_cast<hw::Cpl>(cpl[0]);
    if (opcode == hw::Cpl::rdma_terminate) {
        // This message has no opcode word in host memory: the hash word holds the TID and the body's length
        // in flits [guess G9].
        const std::uint32_t tid = be32(cpl.data()) & 0xfffff;
        cpl = cpl.subspan(4);
        const auto flits = static_cast<std::uint32_t>((cpl.size() + 7) / 8);
        put_be32(&message.descriptor[4],
                 tid << 8 | (guesses_.other(Guess::terminate_flits_include_msn_and_mo) ? flits - 1 : flits));
    }
    // [guess G8] PASS_ACCEPT_REQ ends in reserved bytes: the generation may overwrite the last one.
    std::uint32_t flags = hw::response::offload;
    if (cpl.size() <= hw::immediate_size || opcode == hw::Cpl::pass_accept_req) {
        flags |= hw::response::immediate | hw::response::sop | hw::response::eop;
        std::copy_n(cpl.begin(), std::min(cpl.size(), hw::immediate_size),
                    message.descriptor.begin() + hw::immediate_offset);
    } else {
        message.body.assign(cpl.begin(), cpl.end());
    }
    put_be32(&message.descriptor[8], flags);
    post(queue, std::move(message));
}

void Responses::post_async(unsigned queue, std::array<std::uint32_t, 2> head, const hw::CqeLayout& cqe) {
    if (queue >= queues_.size()) {
        ++no_queue_;
        return;
    }
    Message message;
    put_be32(&message.descriptor[0], head[0]);
    put_be32(&message.descriptor[4], head[1]);
    put_be32(&message.descriptor[8], hw::response::async);
    std::copy_n(hw::bytes_of(cqe).begin(), sizeof cqe, message.descriptor.begin() + hw::immediate_offset);
    post(queue, std::move(message));
}

/// Returns credits at the threshold, when the timer expires, or with the next response [guess G42].
void Responses::return_credits(unsigned queue, TxQueue which, std::uint32_t count, bool now) {
    Queue& q = queues_[queue];
    const std::uint32_t th = regs_.peek(reg::SG_CMDQ_CREDIT_TH);
    const std::uint32_t threshold = bits(th, 7, 0), timeout = bits(th, 31, 8);
    q.tx_credits[which] += count;
    if (now || timeout == 0 || q.tx_credits[which] >= threshold)
        flush_credits(queue);
    else if (q.credit_timer == EventQueue::Id{})
        q.credit_timer = events_.after(core_clocks(timeout), [this, queue] {
            queues_[queue].credit_timer = {};
            flush_credits(queue);
        });
}

/// Writes responses that contain only credits. Credits that do not fit are returned with later responses.
void Responses::flush_credits(unsigned queue) {
    Queue& q = queues_[queue];
    const auto pending = [&q] { return (q.tx_credits[0] | q.tx_credits[1] | q.tx_credits[2]) != 0; };
    if (!pending() || !q.waiting.empty() || q.credits == 0 || !ready(queue))
        return;
    for (; pending() && q.credits != 0; work_.use(response_work)) {
        if (work_.left() == 0) {
            continue_later(queue);
            break;
        }
        Descriptor pure{};
        put_be16(&pure[2], static_cast<std::uint16_t>(queue));
        write_descriptor(queue, pure);
    }
    interrupt(queue);
}

/// The host has processed all entries before the written index and arms the interrupt for the next one. The
/// holdoff timer counts as expired. [guess G43]
void Responses::gts(std::uint32_t value) {
    const unsigned queue = bits(value, 31, 29);
    hw::Context& c = queues_[queue].context;
    if (ctx::size.get(c) == 0) {
        ++no_queue_;
        return;
    }
    ctx::armed.set(c, 1);
    if (bits(value, 15, 0) != ctx::index.get(c))
        interrupt(queue);
}

void Responses::credit_return(std::uint32_t value) {
    const unsigned queue = bits(value, 31, 29);
    Queue& q = queues_[queue];
    q.credits += bits(value, 15, 0);
    if (q.credits > ctx::size.get(q.context)) {
        q.credits = ctx::size.get(q.context);
        irq_.raise(reg::SG_INT_CAUSE, hw::sg_int::rspq_credit_overflow);
    }
    wake(queue);
}

void Responses::free_list_doorbell(unsigned list) {
    if (list < lists_.size())
        wake(list / 2);
}

} // namespace t3sim
