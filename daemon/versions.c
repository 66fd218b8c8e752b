#include "daemon/versions.h"

#include <dnnl.h>
#include <microhttpd.h>
#include <protobuf-c/protobuf-c.h>
#include <uv.h>

#include "base/log.h"
#include "daemon/db/db.h"
#include "daemon/rpc/rpc.h"
#include "kernels/device.h"
#include "revision.h"

const char *versions_own(void) { return BRR_VERSION; }

enum { VERSIONS_MAX_PARTS = 8 };

size_t versions_list(struct service_library *rows, size_t max) {
    const dnnl_version_t *dnnl = dnnl_version();
    char onednn[64];
    str_format(onednn, sizeof onednn, "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
    const struct {
        const char *name, *version;
    } all[] = {{"grpc", rpc_library_version()}, {"protobuf-c", protobuf_c_version()}, {"oneDNN", onednn},
               {"libuv", uv_version_string()},  {"sqlite", db_library_version()},     {"libmicrohttpd", MHD_get_version()}};
    size_t n = 0;
    for (; n < max && n < sizeof all / sizeof *all; n++) {
        COPY_TEXTS(rows[n], all[n], name, version);
    }
    struct device_part parts[VERSIONS_MAX_PARTS];
    int n_parts = device_parts(parts, VERSIONS_MAX_PARTS);
    for (int i = 0; i < n_parts && n < max; i++, n++) {
        str_copy(rows[n].name, sizeof rows[n].name, parts[i].name);
        str_copy(rows[n].version, sizeof rows[n].version, parts[i].version[0] ? parts[i].version : "absent");
    }
    return n;
}

void versions_describe(const struct service_library *rows, size_t n, char *ret, size_t size) {
    struct str text = str_of(size - 1);
    str_printf(&text, "brrd %s (%s)", versions_own(), revision_name);
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].version, "absent") != 0)
            str_printf(&text, ", %s %s", rows[i].name, rows[i].version);
    str_copy(ret, size, str_cstr(&text));
    str_done(&text);
}

void versions_log_parts(void) {
    struct device_part parts[VERSIONS_MAX_PARTS];
    int n = device_parts(parts, VERSIONS_MAX_PARTS);
    for (int i = 0; i < n; i++) {
        if (!parts[i].fits && parts[i].version[0])
            log_warn("does not fit", "part=\"%s\" found=\"%s\" fix=\"%s\"", parts[i].name, parts[i].version, parts[i].fix);
        else if (!parts[i].fits) {
            log_info("devices: cpu", "missing=\"%s\" fix=\"%s\"", parts[i].name, parts[i].fix);
            return; /* what stands on it cannot say more */
        }
    }
}
