/* version and devices. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"
#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/brrctl.h"

/* Both requests are empty messages. */
static void *ask(const char *method, const ProtobufCMessageDescriptor *out, int *ret_exit) {
    struct conn *conn = brrctl_connect(ret_exit);
    struct err err = {0};
    uint8_t *answer = NULL;
    size_t len = 0;
    void *message = NULL;
    if (conn && conn_call(conn, method, "", 0, &answer, &len, &err))
        *ret_exit = brrctl_fail(&err);
    else if (conn && !(message = protobuf_c_message_unpack(out, NULL, len, answer)))
        *ret_exit = EXIT_FAILED;
    free(answer);
    conn_close(conn);
    return message;
}

int cmd_version(const struct options *o) {
    int code = 0;
    Brr__V1__VersionResponse *v = ask("/brr.v1.Admin/Version", &brr__v1__version_response__descriptor, &code);
    if (!v)
        return code;
    if (o->json) {
        struct str s;
        struct json_writer w;
        str_init(&s, 65536);
        json_writer_init(&w, &s);
        json_begin_object(&w, NULL);
        json_put_str(&w, "version", v->version);
        json_put_str(&w, "revision", v->revision);
        json_begin_object(&w, "libraries");
        for (size_t i = 0; i < v->n_libraries; i++)
            json_put_str(&w, v->libraries[i]->key, v->libraries[i]->value);
        json_end(&w, '}');
        json_put_i64(&w, "uptime_ms", v->uptime_ms);
        json_put_str(&w, "notice", v->notice);
        json_end(&w, '}');
        puts(str_cstr(&s));
        str_done(&s);
    } else {
        printf("brrd %s (%s), up %.0f s\n", v->version, v->revision, (double)v->uptime_ms / 1000);
        for (size_t i = 0; i < v->n_libraries; i++)
            printf("  %-14s %s\n", v->libraries[i]->key, v->libraries[i]->value);
        printf("%s\n", v->notice);
    }
    brr__v1__version_response__free_unpacked(v, NULL);
    return 0;
}

int cmd_devices(const struct options *o) {
    int code = 0;
    Brr__V1__DevicesResponse *d = ask("/brr.v1.Admin/Devices", &brr__v1__devices_response__descriptor, &code);
    for (size_t i = 0; d && i < d->n_devices; i++) {
        const Brr__V1__Device *x = d->devices[i];
        if (o->json)
            printf("{\"name\":\"%s\",\"isa\":\"%s\",\"total_bytes\":%lld,\"occupant\":\"%s\"}\n", x->name, x->isa,
                   (long long)x->total_bytes, x->occupant);
        else
            printf("%-8s %s, %.1f GiB, %s\n", x->name, x->description, (double)x->total_bytes / 0x1p30,
                   *x->occupant ? x->occupant : "idle");
    }
    if (d)
        brr__v1__devices_response__free_unpacked(d, NULL);
    return code;
}
