// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Sends every command of the verbs ABI to a dispatcher, well formed and malformed in every way that follows
// from the table (commands.cc), and prints what came of each: a JSON object a line. Run over two dispatchers
// of the same device it tells in what they differ.
//
//     t3-uverbs_conformance DEVICE [--part=N] [--only=TEXT]
//
// --part: one of N malformed cases, always the same ones; --only: cases whose names have TEXT in them.
#include "malform.hh"
#include "races.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace {

using namespace uv;

constexpr uint32_t driver = 3; // cxgb3, whose own layouts the table has

const std::map<int, std::string> errors = {
    {0, "ok"},
    {EPERM, "EPERM"},
    {ENOENT, "ENOENT"},
    {EIO, "EIO"},
    {E2BIG, "E2BIG"},
    {EBADF, "EBADF"},
    {EAGAIN, "EAGAIN"},
    {ENOMEM, "ENOMEM"},
    {EACCES, "EACCES"},
    {EFAULT, "EFAULT"},
    {EBUSY, "EBUSY"},
    {EEXIST, "EEXIST"},
    {ENODEV, "ENODEV"},
    {EINVAL, "EINVAL"},
    {ENOTTY, "ENOTTY"},
    {ENOSPC, "ENOSPC"},
    {ENOSYS, "ENOSYS"},
    {EMSGSIZE, "EMSGSIZE"},
    {EPROTONOSUPPORT, "EPROTONOSUPPORT"},
    {EOPNOTSUPP, "EOPNOTSUPP"},
    {ETIMEDOUT, "ETIMEDOUT"},
    {EOVERFLOW, "EOVERFLOW"},
};

std::string name_of_error(int error) {
    const auto found = errors.find(error);
    return found == errors.end() ? std::to_string(error) : found->second;
}

class Conformance {
public:
    Conformance(const std::string& device, unsigned part, std::string only)
        : doors_(driver), elsewhere_(doors_, device, 40), here_(doors_, device), part_(part),
          only_(std::move(only)) {}

    void run() {
        for (const Command& command : commands())
            all_of(command);
        for (const Method& method : methods())
            all_of(method);
        const std::string races = "destroyed by many: ";
        if (races.find(only_) != std::string::npos)
            race(here_, 1 + 99 / part_,
                 [&](const std::string& what, const std::string& seen) { say(races + what, seen, ""); });
    }

private:
    // Fields of a request may share a name: then the cases are numbered.
    void say(const std::string& what, const std::string& result, const std::string& effect) {
        const unsigned times = ++said_[what];
        const std::string name = times == 1 ? what : what + " #" + std::to_string(times);
        std::printf("{\"case\": \"%s\", \"result\": \"%s\", \"effect\": \"%s\"}\n", name.c_str(),
                    result.c_str(), effect.c_str());
    }

    bool wanted(const std::string& what) const {
        if (what.find(only_) == std::string::npos)
            return false;
        if (part_ == 1 || what.ends_with(": as it should be") || what.ends_with(": without a context"))
            return true;
        uint32_t hash = 2166136261; // FNV-1a: the same in every build
        for (const char c : what)
            hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
        return (hash >> 8) % part_ == 0;
    }

    template <typename Send> void tell(const std::string& what, bool fresh, Send send) {
        if (!wanted(what))
            return;
        const std::string before = census_;
        const int fd = fresh ? here_.open_device() : here_.fd();
        const Outcome outcome = send(fd);
        if (fresh)
            close(fd);
        const std::string after = here_.census();
        std::string effect = outcome.effect;
        if (after != before)
            effect += "; before: " + before + ", now: " + after;
        say(what, name_of_error(outcome.error), effect);
        if (outcome.error == 0 || after != before) {
            here_.close_new_files();
            if (!fresh)
                here_.renew();
            census_ = here_.census();
        }
    }

    void all_of(const Command& command) {
        const std::string name(command.name);
        const auto by_write = [&](bool fresh) {
            return [this, name, fresh](const std::string& what, const Message& message) {
                tell(name + " by write: " + what, fresh, [&](int fd) { return doors_.write(fd, message); });
            };
        };
        const auto carried = [&](bool fresh) {
            return [this, name, fresh](const std::string& what, const Message& message) {
                tell(name + " carried: " + what, fresh, [&](int fd) { return doors_.carry(fd, message); });
            };
        };
        const Message good = here_.message(command);
        by_write(command.fresh)("as it should be", good);
        carried(command.fresh)("as it should be", here_.message(command));
        if (!command.fresh) {
            by_write(true)("without a context", here_.message(command));
            carried(true)("without a context", here_.message(command));
        }
        malform_content(command, here_, elsewhere_, by_write(command.fresh));
        malform_frame(command, here_, by_write(command.fresh));
        malform_content(command, here_, elsewhere_, carried(command.fresh));
    }

    void all_of(const Method& method) {
        const std::string name(method.name);
        const auto by_ioctl = [&](bool fresh) {
            return [this, name, fresh](const std::string& what, const Ioctl& call) {
                tell(name + " by ioctl: " + what, fresh, [&](int fd) { return doors_.ioctl(fd, call); });
            };
        };
        by_ioctl(method.fresh)("as it should be", here_.call(method));
        if (!method.fresh)
            by_ioctl(true)("without a context", here_.call(method));
        malform_ioctl(method, here_, elsewhere_, by_ioctl(method.fresh));
    }

    Doors doors_;
    World elsewhere_, here_; // what is opened last can be closed and opened again
    unsigned part_;
    std::string only_;
    std::map<std::string, unsigned> said_;
    std::string census_ = here_.census();
};

} // namespace

int main(int argc, char** argv) {
    unsigned part = 1;
    std::string device, only;
    for (int i = 1; i < argc; i++) {
        const std::string_view argument = argv[i];
        if (argument.starts_with("--part="))
            part = static_cast<unsigned>(std::max(1, std::atoi(argv[i] + 7)));
        else if (argument.starts_with("--only="))
            only = argument.substr(7);
        else
            device = argument;
    }
    if (device.empty() || device[0] == '-') {
        std::fprintf(stderr, "usage: %s DEVICE [--part=N] [--only=TEXT]\n", argv[0]);
        return 2;
    }
    Conformance(device, part, only).run();
}
