/* version and devices. */
#include <spawn.h>

#include "brr/v1/admin.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"
#include "revision.h"

enum { READY_MS = 4000 };

static int cmd_version(const struct arguments *o) {
    const Brr__V1__VersionRequest in = BRR__V1__VERSION_REQUEST__INIT;
    OWNED_POINTER(brr_disconnect) brr_client *client = NULL;
    struct brr_error err;
    OWNED_ANSWER Brr__V1__VersionResponse *v =
        brrctl_open(o, &client, &err) ? NULL : brrctl_ask(client, "/brr.v1.Admin/Version", &in.base, &err);
    if (!v) { /* this program has a version nevertheless */
        if (!o->json)
            printf("brrctl %s (%s)\n", BRR_VERSION, revision_name);
        fflush(stdout);
        return brrctl_fail_call(&err);
    }
    if (o->json) {
        output_message(&v->base, "version revision libraries{key value} uptime_ms notice");
    } else {
        printf("brrd %s (%s), up %.0f s\n", v->version, v->revision, (double)v->uptime_ms / 1000);
        for (size_t i = 0; i < v->n_libraries; i++)
            printf("  %-14s %s\n", v->libraries[i]->key, v->libraries[i]->value);
        printf("%s\n", v->notice);
    }
    return 0;
}

/* grpc.health.v1.Health/Check without a request, whose answer is one number. */
static int cmd_ready(const struct arguments *o) {
    static const unsigned char serving[] = {0x08, 0x01};
    int code = 0;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    struct brr_error err;
    void *answer = NULL;
    size_t len = 0;
    if (brr_call(client, &(struct brr_request){"/grpc.health.v1.Health/Check", "", 0, READY_MS}, &answer, &len, &err)) {
        code = brrctl_fail_call(&err);
    } else {
        const bool ready = len == sizeof serving && !memcmp(answer, serving, len);
        if (o->json)
            printf("{\"ready\":%s}\n", ready ? "true" : "false");
        else
            puts(ready ? "ready" : "not ready; /readyz of http.listen, brrctl doctor and the log say why");
        code = ready ? 0 : EXIT_FAILED;
    }
    brr_free(answer);
    return code;
}

/* On a terminal of a desktop. A browser that does not start is no error, because the address is printed; it may outlive brrctl. */
static void open_browser(const char *url) {
    char *const words[] = {(char *)(uintptr_t) "xdg-open", (char *)(uintptr_t)url, NULL};
    const char *const x = getenv("DISPLAY"), *const wayland = getenv("WAYLAND_DISPLAY");
    posix_spawn_file_actions_t quiet;
    pid_t child;
    if (!isatty(STDOUT_FILENO) || !((x && *x) || (wayland && *wayland)) || posix_spawn_file_actions_init(&quiet))
        return;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_RDWR, 0);
    posix_spawnp(&child, words[0], &quiet, NULL, words, environ);
    posix_spawn_file_actions_destroy(&quiet);
}

int brrctl_link(const struct arguments *o, const char *path, const ProtobufCMessage *request, bool opens) {
    int code = 0;
    OWNED_ANSWER Brr__V1__PageResponse *p = brrctl_call(o, path, request, &code);
    if (!p)
        return code;
    if (o->json) {
        output_message(&p->base, "url");
    } else {
        puts(p->url);
        if (opens)
            open_browser(p->url);
    }
    return 0;
}

static int cmd_page(const struct arguments *o) {
    const Brr__V1__PageRequest in = BRR__V1__PAGE_REQUEST__INIT;
    return brrctl_link(o, "/brr.v1.Admin/Page", &in.base, false);
}

static void print_device(const void *device) {
    const Brr__V1__Device *d = device;
    char total[32], used[32], reserved[32], limit[32], jobs[200];
    printf("%-8s %s, %s, %s\n", d->name, d->description, output_bytes((double)d->total_bytes, total, sizeof total),
           output_names(d->occupants, d->n_occupants, "idle", jobs, sizeof jobs));
    printf("%-8s %d stream%s, %s of %s used", "", d->streams, d->streams == 1 ? "" : "s",
           output_bytes((double)d->used_bytes, used, sizeof used), output_bytes((double)d->limit_bytes, limit, sizeof limit));
    if (d->reserved_bytes)
        printf(", %s more promised to %s", output_bytes((double)d->reserved_bytes, reserved, sizeof reserved), jobs);
    puts("");
    if (*d->condition)
        printf("%-8s %s: %s\n", "", *d->model ? d->model : "driver", d->condition);
    if (*d->bad)
        printf("%-8s takes no new work: %s\n%-8s %s\n", "", d->bad, "", d->fix);
}

static int cmd_devices(const struct arguments *o) {
    static const struct brrctl_view view = {
        .json = "name description isa total_bytes free_bytes reserved_bytes limit_bytes used_bytes streams occupant occupants "
                "model? uuid? health=readings{name value} slowed_by bad? fix?",
        .print = print_device,
        .items = "devices"};
    const Brr__V1__DevicesRequest in = BRR__V1__DEVICES_REQUEST__INIT;
    return brrctl_show(o, "/brr.v1.Admin/Devices", &in.base, &view);
}

BRRCTL_COMMAND(devices, "", &arguments_none, cmd_devices, "show the devices of the daemon", "example: brrctl devices");

BRRCTL_COMMAND(ready, "", &arguments_none, cmd_ready,
               "exit with 0 if the daemon takes streams and jobs; /readyz also says whether hooks deliver",
               "example: brrctl ready --endpoint unix:/run/brrd/brrd.sock");

BRRCTL_COMMAND(
    page, "", &arguments_none, cmd_page, "print the address of the daemon's web pages, as a link that signs a browser in",
    "Over the unix socket. Without auth.tokens_file the link works once, within five minutes; with it, sign in with a token.\n"
    "example: xdg-open $(brrctl page)");

BRRCTL_COMMAND(version, "", &arguments_none, cmd_version, "show versions of the daemon and its libraries",
               "example: brrctl version --json");
