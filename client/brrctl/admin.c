/* version and devices. */
#include <stdio.h>

#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

int cmd_version(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Admin/Version", &brr__v1__version_response__descriptor, 0};
    const Brr__V1__VersionRequest in = BRR__V1__VERSION_REQUEST__INIT;
    int code = 0;
    Brr__V1__VersionResponse *v = brrctl_call(o, &method, &in.base, &code);
    if (!v)
        return code;
    if (o->json) {
        struct output out;
        struct json_writer *w = output_begin(&out);
        json_put_str(w, "version", v->version);
        json_put_str(w, "revision", v->revision);
        json_begin_object(w, "libraries");
        for (size_t i = 0; i < v->n_libraries; i++)
            json_put_str(w, v->libraries[i]->key, v->libraries[i]->value);
        json_end(w, '}');
        json_put_i64(w, "uptime_ms", v->uptime_ms);
        json_put_str(w, "notice", v->notice);
        output_end(&out);
    } else {
        printf("brrd %s (%s), up %.0f s\n", v->version, v->revision, (double)v->uptime_ms / 1000);
        for (size_t i = 0; i < v->n_libraries; i++)
            printf("  %-14s %s\n", v->libraries[i]->key, v->libraries[i]->value);
        printf("%s\n", v->notice);
    }
    brr__v1__version_response__free_unpacked(v, NULL);
    return 0;
}

/* A reading that the device does not tell is not among them. */
static void put_health(struct json_writer *w, const Brr__V1__Device *d) {
    json_put_str(w, "model", *d->model ? d->model : NULL);
    json_put_str(w, "uuid", *d->uuid ? d->uuid : NULL);
    json_begin_object(w, "health");
    for (size_t i = 0; i < d->n_readings; i++)
        json_put_f64(w, d->readings[i]->name, d->readings[i]->value);
    json_end(w, '}');
    json_begin_array(w, "slowed_by");
    for (size_t i = 0; i < d->n_slowed_by; i++)
        json_put_str(w, NULL, d->slowed_by[i]);
    json_end(w, ']');
    json_put_str(w, "bad", *d->bad ? d->bad : NULL);
    json_put_str(w, "fix", *d->fix ? d->fix : NULL);
}

static void print_device(const Brr__V1__Device *d, bool json) {
    if (json) {
        struct output out;
        struct json_writer *w = output_begin(&out);
        json_put_str(w, "name", d->name);
        json_put_str(w, "description", d->description);
        json_put_str(w, "isa", d->isa);
        json_put_i64(w, "total_bytes", d->total_bytes);
        json_put_i64(w, "free_bytes", d->free_bytes);
        json_put_i64(w, "reserved_bytes", d->reserved_bytes);
        json_put_str(w, "occupant", d->occupant);
        put_health(w, d);
        output_end(&out);
        return;
    }
    char total[32];
    printf("%-8s %s, %s, %s\n", d->name, d->description, output_bytes((double)d->total_bytes, total, sizeof total),
           *d->occupant ? d->occupant : "idle");
    if (*d->condition)
        printf("%-8s %s: %s\n", "", *d->model ? d->model : "driver", d->condition);
    if (*d->bad)
        printf("%-8s takes no new work: %s\n%-8s %s\n", "", d->bad, "", d->fix);
}

int cmd_devices(const struct arguments *o) {
    static const struct brrctl_method method = {"/brr.v1.Admin/Devices", &brr__v1__devices_response__descriptor, 0};
    const Brr__V1__DevicesRequest in = BRR__V1__DEVICES_REQUEST__INIT;
    int code = 0;
    Brr__V1__DevicesResponse *d = brrctl_call(o, &method, &in.base, &code);
    for (size_t i = 0; d && i < d->n_devices; i++)
        print_device(d->devices[i], o->json);
    if (d)
        brr__v1__devices_response__free_unpacked(d, NULL);
    return code;
}
