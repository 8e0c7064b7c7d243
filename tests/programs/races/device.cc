// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.hh"

#include "netlink.hh"
#include "peer.hh"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

namespace races {

namespace {

using namespace std::chrono_literals;

int result(int returned) {
    return returned < 0 ? errno : 0;
}

class WithoutHardware : public Device {
public:
    WithoutHardware()
        : Device("race", "race0", "race77", "race0", 0x0a4d0001, 0x0a4d0001, 0x0a4d0009), // 10.77.0.0
          fd_(open("/dev/t3_races", O_RDWR | O_CLOEXEC)) {
        if (fd_ < 0) {
            std::perror("/dev/t3_races");
            std::exit(1);
        }
    }
    ~WithoutHardware() override { close(fd_); }

    int plug() override { return result(ioctl(fd_, T3_RACES_IOC_PLUG)); }
    int unplug() override { return result(ioctl(fd_, T3_RACES_IOC_UNPLUG)); }
    bool plugged() override { return state().plugged != 0; }
    int report(t3_races_event_type type, uint32_t which, int status) override {
        t3_races_event event{};
        event.type = type;
        event.which = which;
        event.status = status;
        return result(ioctl(fd_, T3_RACES_IOC_EVENT, &event));
    }
    std::string objects() override {
        static constexpr std::array<const char*, T3_RACES_KINDS> kinds = {
            "contexts", "PDs", "MRs", "MWs", "CQs", "QPs", "listeners", "requests", "connections"};
        std::string text;
        const t3_races_state now = state();
        for (size_t kind = 0; kind < T3_RACES_KINDS; kind++)
            if (now.objects[kind])
                text += std::string(text.empty() ? "" : ", ") + std::to_string(now.objects[kind]) + " " +
                        kinds.at(kind);
        return text;
    }

private:
    t3_races_state state() {
        t3_races_state now{};
        ioctl(fd_, T3_RACES_IOC_STATE, &now);
        return now;
    }

    int fd_;
};

// A device that is connected with another guest.
class Connected : public Device {
public:
    int report(t3_races_event_type type, uint32_t which, int status) override {
        switch (type) {
        case T3_RACES_EV_REQUEST:
            return ask_peer({.what = PeerRequest::connect, .number = which});
        case T3_RACES_EV_REPLY:
            return ask_peer({.what = status ? PeerRequest::reject : PeerRequest::accept, .number = which});
        case T3_RACES_EV_PEER_CLOSE:
            return ask_peer({.what = PeerRequest::disconnect, .number = which});
        case T3_RACES_EV_TIMEOUT:
            return ask_peer({.what = PeerRequest::give_up, .number = which});
        default:
            return ENOTSUP;
        }
    }
    std::string objects() override { return {}; } // those of `rdma resource` are counted in any case

protected:
    Connected(const std::string& type, std::string its_interface, bool its_roce)
        : Device(type, type + "0", type + "77", std::move(its_interface), 0x0a000001, 0x0a000002, 0x0a000009,
                 its_roce) {} // 10.0.0.0
};

class Card : public Connected {
public:
    explicit Card(const std::string& its_interface)
        : Connected("cxgb3_", its_interface, false),
          function_(std::filesystem::canonical("/sys/class/net/" + its_interface + "/device").filename()) {}

    int plug() override {
        if (const int error = write_file("bind"))
            return error;
        // The interface has the same name again; its address does not come back by itself.
        const std::string script =
            "ip addr add 10.0.0.1/24 dev " + interface + " && ip link set " + interface + " up";
        if (std::system(script.c_str()) != 0)
            return EIO;
        return wait_for_carrier() ? 0 : ENETDOWN;
    }
    int unplug() override { return write_file("unbind"); }
    bool plugged() override { return std::filesystem::exists(driver() + function_); }
    int report(t3_races_event_type type, uint32_t which, int status) override {
        if (type == T3_RACES_EV_CLOSE)
            return ask_peer({.what = PeerRequest::abort, .number = which});
        return Connected::report(type, which, status);
    }

private:
    static std::string driver() { return "/sys/bus/pci/drivers/cxgb3/"; }
    int write_file(const char* file) {
        const int fd = open((driver() + file).c_str(), O_WRONLY | O_CLOEXEC);
        const int error =
            result(fd < 0 ? fd : static_cast<int>(write(fd, function_.data(), function_.size())));
        if (fd >= 0)
            close(fd);
        return error;
    }

    std::string function_; // its PCI address
};

class Rxe : public Connected {
public:
    explicit Rxe(const std::string& its_interface) : Connected("rxe", its_interface, true) {}

    int plug() override {
        const int error = add_link(name, "rxe", interface);
        plugged_ = plugged_ || !error;
        return error;
    }
    int unplug() override {
        const auto found = find_device(prefix);
        const int error = found ? delete_link(found->index) : ENODEV;
        plugged_ = plugged_ && error;
        return error;
    }
    bool plugged() override { return plugged_; }
    // ib_cm at the peer repeats a connect request that was lost with the device, for a minute: the listener
    // of the next fixture would get it.
    int end_earlier_connections() override { return ask_peer({.what = PeerRequest::end_all, .number = 0}); }
    // A management datagram that cannot be sent puts QP 1 of rxe into the error state. ib_mad moves it to RTS
    // again; in Linux 6.1 its responder stays in the error state, and drops all that arrives.
    int after_link_down() override {
        const int error = unplug();
        return error ? error : plug();
    }
    // A QP that is destroyed is not reported to its peer, as iWARP does by TCP.
    int report(t3_races_event_type type, uint32_t which, int status) override {
        if (type == T3_RACES_EV_ESTABLISHED)
            return ask_peer({.what = PeerRequest::establish, .number = which});
        return Connected::report(type, which, status);
    }
    const std::map<std::string, uint64_t>& kernel_objects() const override {
        static const std::map<std::string, uint64_t> management_datagrams = {{"pd", 1}, {"cq", 1}, {"qp", 1}};
        return management_datagrams;
    }
    // rxe needs functions of ib_uverbs, so t3_uverbs would have to be a second dispatcher beside it.
    const std::vector<std::string>& modules() const override {
        static const std::vector<std::string> manager = {"t3_rdma_cm"};
        return manager;
    }

private:
    std::atomic<bool> plugged_ = true;
};

std::unique_ptr<Device>& current() {
    static std::unique_ptr<Device> the_device;
    return the_device;
}

} // namespace

const std::map<std::string, uint64_t>& Device::kernel_objects() const {
    static const std::map<std::string, uint64_t> none;
    return none;
}

const std::vector<std::string>& Device::modules() const {
    static const std::vector<std::string> both = {"t3_uverbs", "t3_rdma_cm"};
    return both;
}

bool Device::wait_for_carrier() const {
    for (int i = 0; i < 500; i++) {
        std::string carrier;
        std::ifstream("/sys/class/net/" + interface + "/carrier") >> carrier;
        if (carrier == "1")
            return true;
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

Device& device() {
    if (!current())
        current() = std::make_unique<WithoutHardware>();
    return *current();
}

void use_card(const std::string& interface) {
    current() = std::make_unique<Card>(interface);
}

void use_rxe(const std::string& interface) {
    current() = std::make_unique<Rxe>(interface);
}

} // namespace races
