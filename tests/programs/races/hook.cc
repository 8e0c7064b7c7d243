// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "hook.hh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace races {

namespace {

int result(int returned) {
    return returned < 0 ? errno : 0;
}

} // namespace

Hook::Hook() : fd_(open("/dev/t3_races", O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0) {
        std::perror("/dev/t3_races");
        std::exit(1);
    }
}

Hook::~Hook() {
    close(fd_);
}

void Hook::forget() {
    close(fd_);
    fd_ = -1;
}

void Hook::record() {
    ioctl(fd_, T3_RACES_IOC_RECORD);
}

std::vector<Passage> Hook::recording() {
    std::vector<t3_races_passage> raw(T3_RACES_MOST);

    t3_races_recording request{
        .passages = reinterpret_cast<uint64_t>(raw.data()), .capacity = T3_RACES_MOST, .count = 0};
    if (ioctl(fd_, T3_RACES_IOC_RECORDING, &request) < 0)
        request.count = 0;
    std::vector<Passage> passages;
    for (uint32_t i = 0; i < request.count; i++)
        passages.push_back({raw[i].name, raw[i].may_sleep != 0});
    return passages;
}

void Hook::arm(const std::string& point, unsigned nth) {
    t3_races_arm arm{};
    point.copy(arm.name, sizeof(arm.name) - 1);
    arm.nth = nth;
    ioctl(fd_, T3_RACES_IOC_ARM, &arm);
}

int Hook::wait(unsigned ms) {
    return result(ioctl(fd_, T3_RACES_IOC_WAIT, static_cast<unsigned long>(ms)));
}

void Hook::release() {
    ioctl(fd_, T3_RACES_IOC_RELEASE);
}

} // namespace races
