#include "daemon/rpc/grpc_faults.h"

/* The first version without the fault. Older branches may have it fixed in a patch release; they are named all the same. */
static const struct {
    const char *name;
    long major, minor, patch;
} faults[] = {
    {"CVE-2023-1428", 1, 53, 0},  /* headers of 8 KiB end the process */
    {"CVE-2023-33953", 1, 56, 2}, /* HPACK tables take memory and CPU time without limit */
    {"CVE-2023-4785", 1, 56, 2},  /* the TCP port goes deaf when descriptors run out; see accept.h */
    {"CVE-2023-44487", 1, 60, 0}, /* streams that are reset as soon as they are opened */
};

void grpc_faults(const char *version, char *ret, size_t size) {
    char *end;
    long part[3] = {0};
    *ret = '\0';
    for (int i = 0; i < 3; i++, version = end + (*end == '.')) {
        part[i] = strtol(version, &end, 10);
        if (end == version)
            return;
    }
    const long have = (part[0] * 1000 + part[1]) * 1000 + part[2];
    struct str text = str_of(size - 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (have < (faults[i].major * 1000 + faults[i].minor) * 1000 + faults[i].patch)
            str_printf(&text, "%s%s", text.len ? ", " : "", faults[i].name);
    str_copy(ret, size, str_cstr(&text));
    str_done(&text);
}
