// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/worker.hh"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace t3sim {

struct Worker::State {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    std::atomic<std::size_t> unfinished = 0;
    std::function<void()> idle;
    bool ends = false;

    void finished() {
        if (--unfinished == 0 && idle)
            idle();
    }

    void execute() {
        std::unique_lock held(lock);
        for (;;) {
            changed.wait(held, [this] { return ends || !tasks.empty(); });
            if (tasks.empty())
                return;
            auto task = std::move(tasks.front());
            tasks.pop_front();
            held.unlock();
            task();
            task = nullptr; // what it holds is destroyed here, without the lock
            held.lock();
            finished();
        }
    }
};

Worker::Worker() : state_(std::make_shared<State>()) {
    // Signals are for the main thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([state = state_] { state->execute(); }).detach();
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Worker::~Worker() {
    const std::lock_guard lock(state_->lock);
    state_->idle = nullptr;
    state_->ends = true;
    state_->changed.notify_one();
}

void Worker::run(std::function<void()> task) {
    const std::lock_guard lock(state_->lock);
    ++state_->unfinished;
    state_->tasks.push_back(std::move(task));
    state_->changed.notify_one();
}

void Worker::close(Fd fd) {
    if (fd)
        run([owned = std::make_shared<Fd>(std::move(fd))] { owned->reset(); });
}

void Worker::close(std::vector<Fd> fds) {
    if (!fds.empty())
        run([owned = std::make_shared<std::vector<Fd>>(std::move(fds))] { owned->clear(); });
}

bool Worker::is_behind() const {
    return state_->unfinished > 3;
}

void Worker::on_idle(EventLoop& loop, std::function<void()> handler) {
    idle_ = std::make_shared<std::function<void()>>(std::move(handler));
    const std::lock_guard lock(state_->lock);
    state_->idle = [&loop, idle = std::weak_ptr(idle_)] {
        loop.post([idle] {
            if (const auto call = idle.lock())
                (*call)();
        });
    };
}

} // namespace t3sim
