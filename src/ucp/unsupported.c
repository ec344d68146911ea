/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unsupported.c - functions of libucp that are not offered.
 *
 * They are here so that each program loads.  A call returns UCS_ERR_UNSUPPORTED, and the log says so once for each
 * function.
 */
#include "ucp/door.h"

/* ---- sockets ---- */

ucs_status_t ucp_listener_create(ucp_worker_h worker, const ucp_listener_params_t *params,
                                 ucp_listener_h *listener_p)
{
    (void)worker;
    (void)params;
    (void)listener_p;
    return ucpx_unsupported(__func__);
}

void ucp_listener_destroy(ucp_listener_h listener)
{
    (void)listener;
    (void)ucpx_unsupported(__func__);
}

ucs_status_t ucp_listener_query(ucp_listener_h listener, ucp_listener_attr_t *attr)
{
    (void)listener;
    (void)attr;
    return ucpx_unsupported(__func__);
}

ucs_status_t ucp_listener_reject(ucp_listener_h listener, ucp_conn_request_h conn_request)
{
    (void)listener;
    (void)conn_request;
    return ucpx_unsupported(__func__);
}

ucs_status_t ucp_conn_request_query(ucp_conn_request_h conn_request,
                                    ucp_conn_request_attr_t *attr)
{
    (void)conn_request;
    (void)attr;
    return ucpx_unsupported(__func__);
}

/* ---- streams ---- */

ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps,
                               size_t max_eps, unsigned flags)
{
    (void)worker;
    (void)poll_eps;
    (void)max_eps;
    (void)flags;
    return ucpx_unsupported(__func__);
}

ucs_status_ptr_t ucp_stream_send_nb(ucp_ep_h ep, const void *buffer, size_t count,
                                    ucp_datatype_t datatype, ucp_send_callback_t cb,
                                    unsigned flags)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)datatype;
    (void)cb;
    (void)flags;
    return UCS_STATUS_PTR(ucpx_unsupported(__func__));
}

ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count,
                                     const ucp_request_param_t *param)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)param;
    return UCS_STATUS_PTR(ucpx_unsupported(__func__));
}

ucs_status_ptr_t ucp_stream_recv_nb(ucp_ep_h ep, void *buffer, size_t count,
                                    ucp_datatype_t datatype, ucp_stream_recv_callback_t cb,
                                    size_t *length, unsigned flags)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)datatype;
    (void)cb;
    (void)length;
    (void)flags;
    return UCS_STATUS_PTR(ucpx_unsupported(__func__));
}

ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                     const ucp_request_param_t *param)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)length;
    (void)param;
    return UCS_STATUS_PTR(ucpx_unsupported(__func__));
}

ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length)
{
    (void)ep;
    (void)length;
    return UCS_STATUS_PTR(ucpx_unsupported(__func__));
}

ucs_status_t ucp_stream_recv_request_test(void *request, size_t *length_p)
{
    (void)request;
    (void)length_p;
    return ucpx_unsupported(__func__);
}

void ucp_stream_data_release(ucp_ep_h ep, void *data)
{
    (void)ep;
    (void)data;
    (void)ucpx_unsupported(__func__);
}

/* ---- others ---- */

ucs_status_ptr_t ucp_ep_modify_nb(ucp_ep_h ep, const ucp_ep_params_t *params)
{
    (void)ep;
    (void)params;
    return UCS_STATUS_PTR(ucpx_unsupported(__func__));
}
