// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Sends every command of the verbs ABI to a dispatcher, well formed and in all malformed variants that follow
// from the table (commands.cc), and prints the result of each as a JSON object a line. The outputs of two
// dispatchers of the same device are compared.
//
//     t3-uverbs_conformance DEVICE [--part=N] [--only=TEXT]
//
// --part: every Nth malformed case, always the same ones; --only: cases whose names contain TEXT.
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
        : sender_(driver), elsewhere_(sender_, device, 40), here_(sender_, device), part_(part),
          only_(std::move(only)) {}

    void run() {
        for (const Command& command : commands())
            run_cases(command);
        for (const Method& method : methods())
            run_cases(method);
        const std::string races = "destroyed concurrently: ";
        if (races.find(only_) != std::string::npos)
            race(here_, 1 + 99 / part_, [&](const std::string& what, const std::string& result) {
                report(races + what, result, "");
            });
    }

private:
    // Fields of a request may have the same name; their cases are then numbered.
    void report(const std::string& what, const std::string& result, const std::string& effect) {
        const unsigned times = ++reported_[what];
        const std::string name = times == 1 ? what : what + " #" + std::to_string(times);
        std::printf("{\"case\": \"%s\", \"result\": \"%s\", \"effect\": \"%s\"}\n", name.c_str(),
                    result.c_str(), effect.c_str());
    }

    bool wanted(const std::string& what) const {
        if (what.find(only_) == std::string::npos)
            return false;
        if (part_ == 1 || what.ends_with(": well formed") || what.ends_with(": without a context"))
            return true;
        uint32_t hash = 2166136261; // FNV-1a: the same in every build
        for (const char c : what)
            hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
        return (hash >> 8) % part_ == 0;
    }

    template <typename Send> void run_case(const std::string& what, bool fresh, Send send) {
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
        report(what, name_of_error(outcome.error), effect);
        if (outcome.error == 0 || after != before) {
            here_.close_new_files();
            if (!fresh)
                here_.renew();
            census_ = here_.census();
        }
    }

    void run_cases(const Command& command) {
        const std::string name(command.name);
        const auto by_write = [&](bool fresh) {
            return [this, name, fresh](const std::string& what, const Message& message) {
                run_case(name + " by write: " + what, fresh,
                         [&](int fd) { return sender_.write(fd, message); });
            };
        };
        const auto by_invoke_write = [&](bool fresh) {
            return [this, name, fresh](const std::string& what, const Message& message) {
                run_case(name + " by INVOKE_WRITE: " + what, fresh,
                         [&](int fd) { return sender_.invoke_write(fd, message); });
            };
        };
        const Message good = here_.message(command);
        by_write(command.fresh)("well formed", good);
        by_invoke_write(command.fresh)("well formed", here_.message(command));
        if (!command.fresh) {
            by_write(true)("without a context", here_.message(command));
            by_invoke_write(true)("without a context", here_.message(command));
        }
        malform_content(command, here_, elsewhere_, by_write(command.fresh));
        malform_frame(command, here_, by_write(command.fresh));
        malform_content(command, here_, elsewhere_, by_invoke_write(command.fresh));
    }

    void run_cases(const Method& method) {
        const std::string name(method.name);
        const auto by_ioctl = [&](bool fresh) {
            return [this, name, fresh](const std::string& what, const Ioctl& call) {
                run_case(name + " by ioctl: " + what, fresh, [&](int fd) { return sender_.ioctl(fd, call); });
            };
        };
        by_ioctl(method.fresh)("well formed", here_.call(method));
        if (!method.fresh)
            by_ioctl(true)("without a context", here_.call(method));
        malform_ioctl(method, here_, elsewhere_, by_ioctl(method.fresh));
    }

    Sender sender_;
    World elsewhere_, here_; // the World that is opened last can be renewed
    unsigned part_;
    std::string only_;
    std::map<std::string, unsigned> reported_;
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
