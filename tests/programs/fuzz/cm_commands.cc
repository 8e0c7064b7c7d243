// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The commands of /dev/infiniband/rdma_cm.
#include "commands.hh"

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cstddef>

namespace fuzz {

#define AT(type, member) offsetof(type, member), sizeof(static_cast<type*>(nullptr)->member)
#define NUMBER(type, member, usual)                                                                          \
    { Role::Number, Kinds, AT(type, member), usual }
#define ID(type)                                                                                             \
    { Role::Handle, CmId, AT(type, id), 0 }
#define QP_NUMBER(type, member)                                                                              \
    { Role::Handle, QpNumber, AT(type, member), 0 }
#define ADDRESS(type, member, usual)                                                                         \
    { Role::Address, Kinds, AT(type, member), usual }

// Kinds of addresses, see make_address().
enum : uint64_t { Own, Peer, Any };

template <typename Request>
static Command command(const char* name, uint16_t number, std::vector<Field> fields, size_t response = 0,
                       int response_at = -1, std::vector<Made> made = {}, Kind ends = Kinds) {
    return {name,
            Path::Cm,
            number,
            0,
            sizeof(Request),
            static_cast<uint16_t>(response),
            static_cast<int16_t>(response_at),
            0,
            0,
            std::move(fields),
            std::move(made),
            ends};
}

#define RESPONSE(type, answer) sizeof(answer), offsetof(type, response)

std::vector<Command> cm_commands() {
    return {
        command<rdma_ucm_create_id>("cm_create_id", RDMA_USER_CM_CMD_CREATE_ID,
                                    {NUMBER(rdma_ucm_create_id, uid, 91),
                                     NUMBER(rdma_ucm_create_id, ps, RDMA_PS_TCP),
                                     NUMBER(rdma_ucm_create_id, qp_type, 2)},
                                    RESPONSE(rdma_ucm_create_id, rdma_ucm_create_id_resp), {{CmId, 0}}),
        command<rdma_ucm_destroy_id>("cm_destroy_id", RDMA_USER_CM_CMD_DESTROY_ID, {ID(rdma_ucm_destroy_id)},
                                     RESPONSE(rdma_ucm_destroy_id, rdma_ucm_destroy_id_resp), {}, CmId),
        command<rdma_ucm_bind_ip>("cm_bind_ip", RDMA_USER_CM_CMD_BIND_IP,
                                  {ID(rdma_ucm_bind_ip), ADDRESS(rdma_ucm_bind_ip, addr, Own)}),
        command<rdma_ucm_bind>(
            "cm_bind", RDMA_USER_CM_CMD_BIND,
            {ID(rdma_ucm_bind), NUMBER(rdma_ucm_bind, addr_size, 16), ADDRESS(rdma_ucm_bind, addr, Any)}),
        command<rdma_ucm_resolve_ip>("cm_resolve_ip", RDMA_USER_CM_CMD_RESOLVE_IP,
                                     {ID(rdma_ucm_resolve_ip), ADDRESS(rdma_ucm_resolve_ip, src_addr, 7),
                                      ADDRESS(rdma_ucm_resolve_ip, dst_addr, Peer),
                                      NUMBER(rdma_ucm_resolve_ip, timeout_ms, 500)}),
        command<rdma_ucm_resolve_addr>(
            "cm_resolve_addr", RDMA_USER_CM_CMD_RESOLVE_ADDR,
            {ID(rdma_ucm_resolve_addr), NUMBER(rdma_ucm_resolve_addr, src_size, 0),
             NUMBER(rdma_ucm_resolve_addr, dst_size, 16), ADDRESS(rdma_ucm_resolve_addr, src_addr, Own),
             ADDRESS(rdma_ucm_resolve_addr, dst_addr, Peer), NUMBER(rdma_ucm_resolve_addr, timeout_ms, 500)}),
        command<rdma_ucm_resolve_route>(
            "cm_resolve_route", RDMA_USER_CM_CMD_RESOLVE_ROUTE,
            {ID(rdma_ucm_resolve_route), NUMBER(rdma_ucm_resolve_route, timeout_ms, 500)}),
        command<rdma_ucm_query>("cm_query_route", RDMA_USER_CM_CMD_QUERY_ROUTE, {ID(rdma_ucm_query)},
                                RESPONSE(rdma_ucm_query, rdma_ucm_query_route_resp)),
        command<rdma_ucm_query>("cm_query", RDMA_USER_CM_CMD_QUERY,
                                {ID(rdma_ucm_query), NUMBER(rdma_ucm_query, option, 0)},
                                RESPONSE(rdma_ucm_query, rdma_ucm_query_addr_resp)),
        command<rdma_ucm_connect>("cm_connect", RDMA_USER_CM_CMD_CONNECT,
                                  {ID(rdma_ucm_connect), QP_NUMBER(rdma_ucm_connect, conn_param.qp_num),
                                   NUMBER(rdma_ucm_connect, conn_param.private_data_len, 8),
                                   NUMBER(rdma_ucm_connect, conn_param.responder_resources, 1),
                                   NUMBER(rdma_ucm_connect, conn_param.initiator_depth, 1),
                                   NUMBER(rdma_ucm_connect, conn_param.valid, 1),
                                   NUMBER(rdma_ucm_connect, conn_param.srq, 0)}),
        command<rdma_ucm_listen>("cm_listen", RDMA_USER_CM_CMD_LISTEN,
                                 {ID(rdma_ucm_listen), NUMBER(rdma_ucm_listen, backlog, 4)}),
        command<rdma_ucm_accept>("cm_accept", RDMA_USER_CM_CMD_ACCEPT,
                                 {ID(rdma_ucm_accept), NUMBER(rdma_ucm_accept, uid, 92),
                                  QP_NUMBER(rdma_ucm_accept, conn_param.qp_num),
                                  NUMBER(rdma_ucm_accept, conn_param.private_data_len, 8),
                                  NUMBER(rdma_ucm_accept, conn_param.responder_resources, 1),
                                  NUMBER(rdma_ucm_accept, conn_param.initiator_depth, 1),
                                  NUMBER(rdma_ucm_accept, conn_param.valid, 1)}),
        command<rdma_ucm_reject>("cm_reject", RDMA_USER_CM_CMD_REJECT,
                                 {ID(rdma_ucm_reject), NUMBER(rdma_ucm_reject, private_data_len, 8),
                                  NUMBER(rdma_ucm_reject, reason, 28)}),
        command<rdma_ucm_disconnect>("cm_disconnect", RDMA_USER_CM_CMD_DISCONNECT, {ID(rdma_ucm_disconnect)}),
        command<rdma_ucm_init_qp_attr>(
            "cm_init_qp_attr", RDMA_USER_CM_CMD_INIT_QP_ATTR,
            {ID(rdma_ucm_init_qp_attr), NUMBER(rdma_ucm_init_qp_attr, qp_state, 1)},
            RESPONSE(rdma_ucm_init_qp_attr, ib_uverbs_qp_attr)),
        // An event may have a new id, 8 bytes from its start, behind the uid.
        command<rdma_ucm_get_event>("cm_get_event", RDMA_USER_CM_CMD_GET_EVENT, {},
                                    RESPONSE(rdma_ucm_get_event, rdma_ucm_event_resp),
                                    {{CmId, offsetof(rdma_ucm_event_resp, id)}}),
        command<rdma_ucm_set_option>("cm_set_option", RDMA_USER_CM_CMD_SET_OPTION,
                                     {ID(rdma_ucm_set_option),
                                      {Role::Pointer, Kinds, AT(rdma_ucm_set_option, optval), 0},
                                      NUMBER(rdma_ucm_set_option, level, 0),
                                      NUMBER(rdma_ucm_set_option, optname, RDMA_OPTION_ID_REUSEADDR),
                                      NUMBER(rdma_ucm_set_option, optlen, 4)}),
        command<rdma_ucm_notify>("cm_notify", RDMA_USER_CM_CMD_NOTIFY,
                                 {ID(rdma_ucm_notify), NUMBER(rdma_ucm_notify, event, 4)}),
        command<rdma_ucm_join_ip_mcast>(
            "cm_join_ip", RDMA_USER_CM_CMD_JOIN_IP_MCAST,
            {ID(rdma_ucm_join_ip_mcast), ADDRESS(rdma_ucm_join_ip_mcast, addr, 5)},
            RESPONSE(rdma_ucm_join_ip_mcast, rdma_ucm_create_id_resp), {{CmId, 0}}),
        command<rdma_ucm_join_mcast>("cm_join", RDMA_USER_CM_CMD_JOIN_MCAST,
                                     {ID(rdma_ucm_join_mcast), NUMBER(rdma_ucm_join_mcast, addr_size, 16),
                                      NUMBER(rdma_ucm_join_mcast, join_flags, 0),
                                      ADDRESS(rdma_ucm_join_mcast, addr, 5)},
                                     RESPONSE(rdma_ucm_join_mcast, rdma_ucm_create_id_resp), {{CmId, 0}}),
        command<rdma_ucm_destroy_id>("cm_leave", RDMA_USER_CM_CMD_LEAVE_MCAST, {ID(rdma_ucm_destroy_id)},
                                     RESPONSE(rdma_ucm_destroy_id, rdma_ucm_destroy_id_resp)),
        // The other one of the two files, see World::object().
        command<rdma_ucm_migrate_id>(
            "cm_migrate", RDMA_USER_CM_CMD_MIGRATE_ID,
            {ID(rdma_ucm_migrate_id), {Role::Handle, Kinds, AT(rdma_ucm_migrate_id, fd), 0}},
            RESPONSE(rdma_ucm_migrate_id, rdma_ucm_migrate_resp)),
    };
}

} // namespace fuzz
