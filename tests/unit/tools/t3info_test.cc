// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3info/t3info.hh"

#include <sstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netlink/msg.h>
#include <nlohmann/json.hpp>
#include <rdma/rdma_netlink.h>

#include "tests/unit/tools/fake_machine.hh"
#include "tools/t3info/show.hh"

namespace {

using namespace t3info;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

/// Builds a message's attributes as the kernel would.
class Builder {
public:
    Builder() : message_(nlmsg_alloc(), nlmsg_free) { nlmsg_put(message_.get(), 0, 0, 0, 0, 0); }
    Builder& u8(int type, std::uint8_t value) { return check(nla_put_u8(message_.get(), type, value)); }
    Builder& u32(int type, std::uint32_t value) { return check(nla_put_u32(message_.get(), type, value)); }
    Builder& u64(int type, std::uint64_t value) { return check(nla_put_u64(message_.get(), type, value)); }
    Builder& text(int type, const char* value) { return check(nla_put_string(message_.get(), type, value)); }
    Builder& address(int type, const char* ip, std::uint16_t port) {
        sockaddr_storage storage{};
        auto& in = reinterpret_cast<sockaddr_in&>(storage);
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        inet_pton(AF_INET, ip, &in.sin_addr);
        return check(nla_put(message_.get(), type, sizeof(storage), &storage));
    }
    Builder& open(int type) {
        nested_.push_back(nla_nest_start(message_.get(), type));
        return *this;
    }
    Builder& close() {
        nla_nest_end(message_.get(), nested_.back());
        nested_.pop_back();
        return *this;
    }
    Source::Message message() const {
        const auto* header = nlmsg_hdr(message_.get());
        const auto* data = static_cast<const std::byte*>(nlmsg_data(header));
        return {data, data + nlmsg_datalen(header)};
    }

private:
    Builder& check(int error) {
        EXPECT_EQ(error, 0);
        return *this;
    }
    std::unique_ptr<nl_msg, void (*)(nl_msg*)> message_;
    std::vector<nlattr*> nested_;
};

/// One T3 with a port, on which process 4711 has a connection, and a device of another kind.
class FakeKernel : public Source {
public:
    std::vector<Message> dump(int command, int) override {
        switch (command) {
        case RDMA_NLDEV_CMD_GET:
            return {device(0, "mlx5_0"), device(1, "cxgb3_0")};
        case RDMA_NLDEV_CMD_PORT_GET:
            return {Builder()
                        .u32(RDMA_NLDEV_ATTR_PORT_INDEX, 1)
                        .u8(RDMA_NLDEV_ATTR_PORT_STATE, 4)
                        .u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 5)
                        .text(RDMA_NLDEV_ATTR_NDEV_NAME, "eth0")
                        .message()};
        case RDMA_NLDEV_CMD_RES_QP_GET:
            return {Builder()
                        .open(RDMA_NLDEV_ATTR_RES_QP)
                        .open(RDMA_NLDEV_ATTR_RES_QP_ENTRY)
                        .u32(RDMA_NLDEV_ATTR_RES_LQPN, 32)
                        .u8(RDMA_NLDEV_ATTR_RES_TYPE, 2)
                        .u8(RDMA_NLDEV_ATTR_RES_STATE, 3)
                        .u32(RDMA_NLDEV_ATTR_RES_PID, 4711)
                        .close()
                        .open(RDMA_NLDEV_ATTR_RES_QP_ENTRY)
                        .u32(RDMA_NLDEV_ATTR_RES_LQPN, 33)
                        .u8(RDMA_NLDEV_ATTR_RES_TYPE, 2)
                        .u8(RDMA_NLDEV_ATTR_RES_STATE, 77)
                        .text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "nvme_rdma")
                        .close()
                        .close()
                        .message()};
        case RDMA_NLDEV_CMD_RES_CM_ID_GET:
            return {Builder()
                        .open(RDMA_NLDEV_ATTR_RES_CM_ID)
                        .open(RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY)
                        .u32(RDMA_NLDEV_ATTR_RES_CM_IDN, 5)
                        .u32(RDMA_NLDEV_ATTR_RES_LQPN, 32)
                        .u8(RDMA_NLDEV_ATTR_RES_STATE, 5)
                        .address(RDMA_NLDEV_ATTR_RES_SRC_ADDR, "10.0.0.1", 7174)
                        .address(RDMA_NLDEV_ATTR_RES_DST_ADDR, "10.0.0.2", 40000)
                        .u32(RDMA_NLDEV_ATTR_RES_PID, 4711)
                        .close()
                        .close()
                        .message()};
        case RDMA_NLDEV_CMD_RES_MR_GET:
            return {Builder()
                        .open(RDMA_NLDEV_ATTR_RES_MR)
                        .open(RDMA_NLDEV_ATTR_RES_MR_ENTRY)
                        .u32(RDMA_NLDEV_ATTR_RES_MRN, 9)
                        .u64(RDMA_NLDEV_ATTR_RES_MRLEN, 4294967296)
                        .u32(RDMA_NLDEV_ATTR_RES_RKEY, 0x1234)
                        .u32(RDMA_NLDEV_ATTR_RES_PID, 1)
                        .close()
                        .close()
                        .message()};
        default:
            return {};
        }
    }

private:
    static Message device(std::uint32_t index, const char* name) {
        return Builder()
            .u32(RDMA_NLDEV_ATTR_DEV_INDEX, index)
            .text(RDMA_NLDEV_ATTR_DEV_NAME, name)
            .text(RDMA_NLDEV_ATTR_FW_VERSION, "7.12.0")
            .text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "iw")
            .u64(RDMA_NLDEV_ATTR_NODE_GUID, 0x0007431122000000)
            .message();
    }
};

struct T3info : testing::Test {
    T3info() {
        machine.add_rdma_device();
        machine.add_rdma_device("mlx5_0", "mlx5_core", "uverbs1");
        machine.file("/proc/4711/comm", "rping\n");
        counter(1000);
    }
    void counter(int value) const {
        machine.file("/sys/class/infiniband/cxgb3_0/hw_counters/ip_in", std::to_string(value) + "\n");
        machine.file("/sys/class/infiniband/cxgb3_0/ports/1/hw_counters/tx", "5\n");
        machine.file("/sys/class/infiniband/cxgb3_0/hw_counters/lifespan", "10\n");
    }
    int run(const Words& words) {
        out.str("");
        err.str("");
        return t3info::run(
            words, machine, [] { return std::make_unique<FakeKernel>(); }, out, err);
    }
    FakeMachine machine;
    std::ostringstream out, err;
};

TEST_F(T3info, OnlyT3sWithTheirPorts) {
    EXPECT_EQ(run({}), 0);
    EXPECT_EQ(out.str(),
              "cxgb3_0: iw, firmware 7.12.0, GUID 0007:4311:2200:0000; 2 QPs, 1 CM ids, 1 MRs, 0 CQs, 0 PDs\n"
              "  PORT  STATE   PHYSICAL  INTERFACE\n"
              "  1     ACTIVE  LINK_UP   eth0\n");
}

TEST_F(T3info, ObjectsWithTheirOwners) {
    EXPECT_EQ(run({"qp", "cm", "mr"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("32  RC    RTS    4711 rping\n"));
    EXPECT_THAT(out.str(), HasSubstr("33  RC    77     [nvme_rdma]\n"));
    EXPECT_THAT(out.str(), HasSubstr("5      CONNECT  10.0.0.1:7174  10.0.0.2:40000  32  4711 rping\n"));
    EXPECT_THAT(out.str(), HasSubstr("9   4294967296  0x1234  1 ?\n"));
    EXPECT_THAT(out.str(), Not(HasSubstr("PORT")));
}

TEST_F(T3info, Counters) {
    EXPECT_EQ(run({"counters"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("ip_in     1000\n"));
    EXPECT_THAT(out.str(), HasSubstr("port1.tx  5\n"));
    EXPECT_THAT(out.str(), Not(HasSubstr("lifespan")));
}

TEST_F(T3info, Json) {
    EXPECT_EQ(run({"all", "--json"}), 0);
    const auto json = nlohmann::json::parse(out.str());
    ASSERT_EQ(json.size(), 1U);
    EXPECT_EQ(json[0]["qp"][0]["owner"]["name"], "rping");
    EXPECT_EQ(json[0]["cm"][0]["remote"], "10.0.0.2:40000");
    EXPECT_EQ(json[0]["mr"][0]["length"], 4294967296);
    EXPECT_EQ(json[0]["counters"]["ip_in"], 1000);
}

TEST_F(T3info, RatesAreOfWhatChanged) {
    FakeKernel kernel;
    const auto before = collect(kernel, machine);
    counter(1500);
    EXPECT_THAT(to_screen(before, collect(kernel, machine), 2.0), HasSubstr("ip_in    1500   250\n"));
    EXPECT_THAT(to_screen(before, collect(kernel, machine), 2.0), Not(HasSubstr("port1.tx")));
    counter(100); // the device was replaced
    EXPECT_THAT(to_screen(before, collect(kernel, machine), 2.0), HasSubstr("ip_in    100    50\n"));
}

TEST_F(T3info, WatchEndsAfterItsCount) {
    EXPECT_EQ(run({"--watch", "0.1", "-n", "2"}), 0);
    EXPECT_THAT(out.str(), HasSubstr("cxgb3_0: iw"));
    EXPECT_EQ(run({"-w", "0.1", "-n", "3", "--json", "ports"}), 0);
    const auto text = out.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST_F(T3info, NoSuchDevice) {
    EXPECT_EQ(run({"-d", "cxgb3_9"}), 3);
    EXPECT_THAT(err.str(), HasSubstr("there is no T3 RDMA device cxgb3_9"));
    EXPECT_EQ(run({"-d", "mlx5_0"}), 3);
    EXPECT_EQ(run({"-d", "cxgb3_0"}), 0);
}

TEST_F(T3info, AKernelWithoutRdmaIsReported) {
    const auto refuse = []() -> std::unique_ptr<Source> { throw std::runtime_error("no RDMA"); };
    EXPECT_EQ(t3info::run({}, machine, refuse, out, err), 1);
    EXPECT_EQ(err.str(), "t3info: no RDMA\n");
}

class T3infoWrong : public T3info, public testing::WithParamInterface<Words> {};
TEST_P(T3infoWrong, CommandLine) {
    EXPECT_EQ(run(GetParam()), 2);
    EXPECT_THAT(err.str(), testing::EndsWith("see t3info --help\n"));
}
INSTANTIATE_TEST_SUITE_P(All, T3infoWrong,
                         testing::Values(Words{"srq"}, Words{"-w", "0"}, Words{"-n", "3"}, Words{"-d"},
                                         Words{"--colour"}, Words{"-w", "soon"}));

} // namespace
