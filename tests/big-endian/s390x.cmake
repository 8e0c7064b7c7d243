# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# A big-endian machine with 64 bits: Debian's cross compiler, and QEMU's emulation of its user space.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(CMAKE_C_COMPILER s390x-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER s390x-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-s390x;-L;/usr/s390x-linux-gnu")
