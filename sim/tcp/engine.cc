// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/tcp/engine.hh"

#include <algorithm>
#include <array>

#include "sim/tcp/connection.hh"

namespace t3sim::tcp {

/// One call into the engine. Output and deletion happen when the outermost call returns, or a burst ends,
/// because within any call a Sink function may call the engine again and a connection may be removed.
class Engine::Scope {
public:
    explicit Scope(Engine& e) : e_(e) { ++e_.depth_; }
    ~Scope() {
        if (e_.depth_ == 1 && !e_.burst_) {
            e_.flush();
            e_.removed_.clear();
        }
        --e_.depth_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

private:
    Engine& e_;
};

const char* name(State state) {
    constexpr std::array names{"SYN-HELD",   "SYN-SENT",   "SYN-RECEIVED", "ESTABLISHED",
                               "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT",   "CLOSING",
                               "LAST-ACK",   "TIME-WAIT",  "ABORTED"};
    static_assert(names.size() == static_cast<std::size_t>(State::aborted) + 1);
    return names[static_cast<std::size_t>(state)];
}

Engine::Engine(Sink& sink, const Params& params, Clock clock)
    : sink_(sink), params_(params), clock_(std::move(clock)) {}

Engine::~Engine() = default;

Connection* Engine::find(ConnId id) const {
    return by_id_.get(id);
}

std::optional<ListenId> Engine::listener(const FourTuple& tuple) const {
    for (const std::uint32_t ip : {tuple.local_ip, std::uint32_t{0}})
        if (const auto it = listeners_.lower_bound({ip, tuple.local_port, 0});
            it != listeners_.end() && it->first.ip == ip && it->first.port == tuple.local_port)
            return it->second;
    return std::nullopt;
}

void Engine::listen(ListenId id, std::uint32_t ip, std::uint16_t port) {
    unlisten(id);
    const Listener made{ip, port, ++listens_};
    listeners_.emplace(made, id);
    listener_of_.emplace(id, made);
}

void Engine::unlisten(ListenId id) {
    if (const auto it = listener_of_.find(id); it != listener_of_.end()) {
        listeners_.erase(it->second);
        listener_of_.erase(it);
    }
}

Connection& Engine::add(ConnId id, const FourTuple& tuple) {
    auto made = std::make_unique<Connection>(*this, id, tuple);
    Connection& connection = *made;
    if (by_tuple_.empty()) // not in the constructor: the owner sets the secret later
        tuple_key_ = {siphash(params_.iss_secret, {0}), siphash(params_.iss_secret, {1})};
    by_id_.set(id, std::move(made));
    by_tuple_[tuple] = &connection;
    return connection;
}

void Engine::remove(Connection& c) {
    c.stop_timers();
    c.enter(State::aborted);
    c.release_memory();
    by_tuple_.erase(c.tuple);
    removed_.push_back(by_id_.take(c.id));
}

void Engine::flush() {
    for (std::size_t n = 0; n < dirty_.size(); ++n) { // output() may add more
        dirty_[n]->dirty = false;
        dirty_[n]->output();
    }
    dirty_.clear();
}

void Engine::burst(bool on) {
    burst_ = on;
    const Scope scope(*this);
}

bool Engine::claims(Bytes packet, bool listening) const {
    const auto to = peek(packet);
    if (!to)
        return false;
    return by_tuple_.contains(to->tuple) || starts_connection(*to, listening);
}

std::optional<ConnId> Engine::find(Bytes packet) const {
    const auto to = peek(packet);
    const auto found = to ? by_tuple_.find(to->tuple) : by_tuple_.end();
    return found == by_tuple_.end() ? std::nullopt : std::optional(found->second->id);
}

bool Engine::starts_connection(const Addressed& to, bool listening) const {
    return listening && (to.flags & (flag_syn | flag_ack | flag_rst | flag_fin)) == flag_syn &&
           listener(to.tuple).has_value();
}

bool Engine::input(Bytes packet, bool listening, const Packet* intact) {
    const auto to = peek(packet);
    if (!to)
        return false;
    const auto found = by_tuple_.find(to->tuple);
    if (found == by_tuple_.end() && !starts_connection(*to, listening))
        return false;
    const Scope scope(*this);
    ++stats_.in_segs;
    Segment segment;
    if (!decode(packet, segment, intact)) {
        ++stats_.in_errs;
        return true;
    }
    if (found != by_tuple_.end()) {
        Connection& c = *found->second;
        if (!c.accepts_new_syn(segment) || !starts_connection(*to, listening)) {
            c.input(segment);
            return true;
        }
        const ConnId old = c.id;
        remove(c);
        sink_.finished(old);
    }
    const auto from = listener(segment.tuple);
    if (!from)
        return false;
    const SynInfo info{.tuple = segment.tuple,
                       .irs = segment.seq,
                       .mss = segment.mss.value_or(params_.default_mss),
                       .window_scale = segment.window_scale,
                       .sack_permitted = segment.sack_permitted,
                       .timestamps = segment.timestamps,
                       .tos = segment.tos};
    // The connection is created with the id that syn() returns, so the owner must not accept or reject it
    // within syn(). The card satisfies this: its host replies later.
    const auto id = sink_.syn(*from, info);
    if (id && !by_id_.contains(*id))
        add(*id, segment.tuple).start_held(segment);
    return true;
}

/// What this event may still deliver, send and free. The clock stands still during an event.
Engine::Left& Engine::left() {
    if (const Time now = clock_(); std::exchange(left_at_, now) != now)
        left_ = {};
    return left_;
}

void Engine::advance() {
    const Scope scope(*this);
    const Time now = left_at_ = clock_();
    left_ = {}; // an event of its own, perhaps of the same time as the one before
    for (unsigned n = 0; n < timers_at_a_time && left_.bytes != 0; ++n) {
        Timer* t = timers_.earliest();
        if (!t || t->when() > now)
            break;
        timers_.stop(*t);
        auto* timer = static_cast<Connection::ConnTimer*>(t);
        (timer->owner->*timer->fire)();
    }
}

std::optional<Time> Engine::next_deadline() const {
    const Timer* t = timers_.earliest();
    return t ? std::optional(t->when()) : std::nullopt;
}

bool Engine::drop_one() {
    if (Connection* last = by_id_.last(); last && last->drop_one())
        return true;
    const auto drop = [](auto& table) {
        if (!table.empty())
            table.erase(table.begin());
        return !table.empty();
    };
    const bool left[] = {by_id_.drop_last(), drop(by_tuple_), drop(listeners_), drop(listener_of_)};
    return std::find(std::begin(left), std::end(left), true) != std::end(left);
}

bool Engine::open(ConnId id, const FourTuple& tuple, const Options& options) {
    const Scope scope(*this);
    if (by_id_.contains(id) || by_tuple_.contains(tuple))
        return false;
    ++stats_.active_opens;
    add(id, tuple).start_active(options);
    return true;
}

bool Engine::accept(ConnId id, const Options& options) {
    const Scope scope(*this);
    Connection* c = find(id);
    if (!c || c->state() != State::syn_held)
        return false;
    ++stats_.passive_opens;
    c->accept(options);
    return true;
}

bool Engine::send(ConnId id, Packet&& record, bool push) {
    const Scope scope(*this);
    Connection* c = find(id);
    return c && c->send(std::move(record), push);
}

bool Engine::credit(ConnId id, std::uint32_t bytes, bool force_ack) {
    const Scope scope(*this);
    Connection* c = find(id);
    if (!c || !c->synchronized())
        return false;
    c->credit(bytes, force_ack);
    return true;
}

bool Engine::auto_credit(ConnId id) {
    const Scope scope(*this);
    Connection* c = find(id);
    if (!c || !c->synchronized())
        return false;
    c->auto_credit();
    return true;
}

bool Engine::hold(ConnId id, bool on) {
    const Scope scope(*this);
    Connection* c = find(id);
    if (!c || c->state() == State::aborted)
        return false;
    c->hold(on);
    return true;
}

bool Engine::limit_mss(ConnId id, std::uint16_t mss) {
    Connection* c = find(id);
    if (!c || !c->synchronized())
        return false;
    c->limit_mss(mss);
    return true;
}

bool Engine::resume(ConnId id) {
    const Scope scope(*this);
    Connection* c = find(id);
    if (!c)
        return false;
    c->mark_dirty();
    return true;
}

bool Engine::close(ConnId id) {
    const Scope scope(*this);
    Connection* c = find(id);
    return c && c->close();
}

bool Engine::abort(ConnId id, bool send_rst) {
    const Scope scope(*this);
    Connection* c = find(id);
    if (!c)
        return false;
    if (send_rst)
        c->send_rst();
    remove(*c);
    return true;
}

bool Engine::release(ConnId id) {
    return abort(id, false);
}

std::size_t Engine::unacknowledged(ConnId id) const {
    const Connection* c = find(id);
    return c ? c->queued() : 0;
}

std::size_t Engine::sending_memory(ConnId id) const {
    const Connection* c = find(id);
    return c ? c->memory_.sending : 0;
}

std::uint16_t Engine::mss(ConnId id) const {
    const Connection* c = find(id);
    return c ? c->mss_ : 0;
}

std::optional<View> Engine::view(ConnId id) const {
    const Connection* c = find(id);
    return c ? std::optional(c->view()) : std::nullopt;
}

std::uint32_t Engine::choose_iss(const FourTuple& tuple) const {
    if (params_.iss)
        return params_.iss(tuple);
    const auto keyed =
        siphash(params_.iss_secret, {std::uint64_t{tuple.local_ip} << 32 | tuple.remote_ip,
                                     std::uint64_t{tuple.local_port} << 16 | tuple.remote_port});
    return static_cast<std::uint32_t>(keyed) + static_cast<std::uint32_t>(clock_() / (4 * microsecond));
}

} // namespace t3sim::tcp
