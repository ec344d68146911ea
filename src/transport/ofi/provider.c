/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.c - chooses the provider and the interface.
 *
 * libfabric lists its providers, the best first; the first suitable one is taken: reliable
 * datagrams, with sends in order.  Providers that can also read and write memory are preferred,
 * then providers that can put many packets into one receive buffer.  Tag matching is never
 * requested: FI_TAGGED is not among the hints.
 *
 * These are skipped unless named: Matchbox's own provider, which would come back here;
 * providers that only reach this machine, which is the task of shm; and libfabric's test
 * providers.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/log.h"
#include "transport/ofi/tx.h"
#include "transport/ofi/provider.h"

static const char *const own = "matchbox";
static const char *const unwanted[] = {"shm", "sm2", "sockets", "udp", "mrail", "hook", "lnx"};

static bool is_one_of(const struct fi_info *info, const char *const *names, size_t count)
{
    const char *name = info->fabric_attr->prov_name;

    for (size_t i = 0; name != NULL && i < count; i++)
        if (strstr(name, names[i]) != NULL)
            return true;
    return name == NULL;
}

/* Is it an address rather than the name of an interface?  Names begin with a letter. */
static bool is_address(const char *interface)
{
    return strchr(interface, ':') != NULL || (interface[0] >= '0' && interface[0] <= '9');
}

/* Does it use the requested interface?  Some providers, such as ofi_rxm, ignore a name among
 * the hints; they respect an address. */
static bool ofi_provider_is_there(const struct fi_info *info, const char *interface)
{
    const char *name = info->domain_attr->name;

    return interface[0] == '\0' || is_address(interface) ||
           (name != NULL && strcmp(name, interface) == 0);
}

static bool will_do(const struct fi_info *info, bool is_named, const char *interface)
{
    size_t most = info->ep_attr->max_msg_size;

    return !is_one_of(info, &own, 1) && ofi_provider_is_there(info, interface) &&
           (is_named || !is_one_of(info, unwanted, ARRAY_COUNT(unwanted))) &&
           (most == 0 || most >= OFI_MESSAGE_MAX) && info->ep_attr->msg_prefix_size == 0;
}

static struct fi_info *make_hints(const struct ofi_dl *dl, const char *provider,
                                  const char *domain, uint64_t caps)
{
    struct fi_info *hints = dl->dupinfo(NULL);

    if (hints == NULL)
        return NULL;
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (provider[0] != '\0')
        hints->fabric_attr->prov_name = strdup(provider); /* libfabric frees the copy */
    if (domain != NULL)
        hints->domain_attr->name = strdup(domain);
    return hints;
}

static int ofi_provider_ask(const struct ofi_dl *dl, const char *provider,
                            const char *interface, uint64_t caps, struct fi_info **list)
{
    bool by_address = is_address(interface);
    struct fi_info *hints =
        make_hints(dl, provider, by_address || interface[0] == '\0' ? NULL : interface, caps);
    uint32_t version = dl->version();
    int err;

    if (hints == NULL)
        return -ENOMEM;
    if (FI_VERSION_GE(version, OFI_API_VERSION))
        version = OFI_API_VERSION;
    *list = NULL;
    err = dl->getinfo(version, by_address ? interface : NULL, NULL, by_address ? FI_SOURCE : 0,
                      hints, list);
    dl->freeinfo(hints);
    return err;
}

static struct fi_info *choose(const struct ofi_dl *dl, const char *provider,
                              const char *interface, uint64_t caps)
{
    struct fi_info *list, *chosen = NULL;

    if (ofi_provider_ask(dl, provider, interface, caps, &list) != 0)
        return NULL;
    for (const struct fi_info *at = list; at != NULL && chosen == NULL; at = at->next)
        if (will_do(at, provider[0] != '\0', interface))
            chosen = dl->dupinfo(at);
    dl->freeinfo(list);
    return chosen;
}

/* Logs why no provider is left. */
static void complain(const char *provider, const char *interface)
{
    const char *filter = environ_get("FI_PROVIDER"); /* of libfabric; mbx exec sets it */

    if (strstr(provider, own) != NULL)
        LOG_ERROR(
            "ofi: MBX_OFI_PROVIDER=%s is Matchbox itself, which needs another provider to "
            "reach other machines: name one, such as tcp (fi_info lists them)",
            provider);
    else
        LOG_ERROR("ofi: libfabric has no provider for messages to other "
                  "machines%s%s%s%s%s%s; fi_info lists what it has",
                  provider[0] != '\0' ? ", MBX_OFI_PROVIDER=" : "", provider,
                  interface[0] != '\0' ? ", MBX_OFI_INTERFACE=" : "", interface,
                  filter != NULL ? ", and may look only for FI_PROVIDER=" : "",
                  filter != NULL ? filter : "");
}

/* Replaces *info by the same provider with atomics, if it has them. */
static void add_atomics(const struct ofi_dl *dl, const char *interface, uint64_t caps,
                        struct fi_info **info)
{
    const char *name = (*info)->fabric_attr->prov_name;
    struct fi_info *more = choose(dl, name, interface, caps | FI_ATOMIC);

    if (more == NULL)
        return;
    if (strcmp(more->fabric_attr->prov_name, name) != 0 ||
        strcmp(more->domain_attr->name, (*info)->domain_attr->name) != 0) {
        dl->freeinfo(more);
        return;
    }
    dl->freeinfo(*info);
    *info = more;
}

int ofi_provider_choose(const struct ofi_dl *dl, const char *provider, const char *interface,
                        bool wants_atomics, struct fi_info **info)
{
    static const uint64_t wanted[] = {
        FI_MSG | FI_RMA | FI_MULTI_RECV,
        FI_MSG | FI_RMA,
        FI_MSG | FI_MULTI_RECV,
        FI_MSG,
    };

    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        *info = choose(dl, provider, interface, wanted[i]);
        if (*info != NULL) {
            if (wants_atomics)
                add_atomics(dl, interface, wanted[i], info);
            return 0;
        }
    }
    complain(provider, interface);
    return -ENODATA;
}
