/* Calls of the commands, and how their errors look. */

#include "base/needed.h"
#include "base/user_paths.h"
#include "brr/v1/admin.pb-c.h"
#include "brr/v1/alarms.pb-c.h"
#include "brr/v1/beds.pb-c.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "brr/v1/hooks.pb-c.h"
#include "brr/v1/journal.pb-c.h"
#include "brr/v1/sessions.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

enum { MINUTE_MS = 60000, AWAIT_MS = 30000, AWAIT_LOCK_MS = 1000, AWAIT_TURN_MS = 50 };

static int exit_of(int code) {
    if (code == ERR_NOT_FOUND)
        return EXIT_NOT_FOUND;
    return code == ERR_UNAVAILABLE ? EXIT_UNAVAILABLE : EXIT_FAILED;
}

int brrctl_confirms(const char *question) {
    char answer[16];
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return -1;
    fprintf(stderr, "%s [y/N] ", question);
    return fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
}

int brrctl_fail(const struct err *err) {
    char text[800];
    output_clear();
    fprintf(stderr, "brrctl: %s\n", err_text(err, text, sizeof text));
    return exit_of(err->code);
}

int brrctl_fail_call(const struct brr_error *error) {
    struct brr_error clean = *error, *err = &clean;
    output_clean(clean.message);
    output_clean(clean.cause);
    output_clear();
    fprintf(stderr, "brrctl: %s", err->message);
    if (*err->cause)
        fprintf(stderr, " (%s)", err->cause);
    if (*err->reason && strcasecmp(err->reason, err_name(err->code)) != 0) /* a status without a reason of its own says nothing */
        fprintf(stderr, " [%s]", err->reason);
    if (err->retry_after_ms > 0)
        fprintf(stderr, "; try again in %.0f s", (double)err->retry_after_ms / 1000);
    fputc('\n', stderr);
    return exit_of(err->code);
}

/* Waits for this user's daemon while it starts: it holds the lock of its state folder, which it takes first, and has no socket yet.
 * A daemon that was started on the line before gets a moment to take the lock. With a named endpoint nobody waits. */
static void await_daemon(const struct arguments *o) {
    char own[USER_PATH_SIZE];
    const char *named = getenv("BRR_ENDPOINT"), *service = BRR_DEFAULT_ENDPOINT + strlen("unix:");
    bool starts = false;
    struct err err;
    if (o->endpoint || (named && *named) || user_path_socket(own, &err))
        return;
    for (int ms = 0; ms < AWAIT_MS && !user_path_answers(own) && !fsio_exists(service); ms += AWAIT_TURN_MS) {
        const bool held = user_path_locked();
        if (!held && (starts || ms >= AWAIT_LOCK_MS))
            return;
        if (held && !starts)
            fprintf(stderr, "brrctl: the daemon is starting; waiting for its socket %s, 30 s at most\n", own);
        starts |= held;
        nanosleep(&(struct timespec){.tv_nsec = AWAIT_TURN_MS * 1000000}, NULL);
    }
}

int brrctl_open(const struct arguments *o, brr_client **ret, struct brr_error *err) {
    const struct brr_connect_options options = {SAME_MEMBERS(*o, endpoint, tls_ca, tls_cert, tls_key, token_file)};
    await_daemon(o);
    return brr_connect_with(&options, ret, err);
}

brr_client *brrctl_connect(const struct arguments *o, int *ret_exit) {
    brr_client *client = NULL;
    struct brr_error err;
    if (brrctl_open(o, &client, &err)) {
        *ret_exit = brrctl_fail_call(&err);
        *ret_exit = err.code == BRR_INVALID ? EXIT_USAGE : *ret_exit; /* of the options; faults of files have other codes */
    }
    return client;
}

static uint8_t *pack(const ProtobufCMessage *m, size_t *ret_len) {
    *ret_len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = needed(malloc(*ret_len + 1));
    protobuf_c_message_pack(m, bytes);
    return bytes;
}

int brrctl_set_error(struct brr_error *ret, int code, const char *text) {
    *ret = (struct brr_error){.code = code};
    str_copy(ret->message, sizeof ret->message, text);
    return code;
}

int brrctl_keep_error(struct brr_error *ret, const struct err *err) {
    brrctl_set_error(ret, err->code, err->message);
    str_copy(ret->cause, sizeof ret->cause, err->cause);
    return err->code;
}

static const ProtobufCServiceDescriptor *const services[] = {
    &brr__v1__admin__descriptor,   &brr__v1__alarms__descriptor,  &brr__v1__beds__descriptor,    &brr__v1__checkpoints__descriptor,
    &brr__v1__hooks__descriptor,   &brr__v1__jobs__descriptor,    &brr__v1__journal__descriptor, &brr__v1__models__descriptor,
    &brr__v1__metrics__descriptor, &brr__v1__sessions__descriptor};

/* The type of the answer to a method such as "/brr.v1.Jobs/Get". The program ends at a path that no service has. */
static const ProtobufCMessageDescriptor *answer_of(const char *path) {
    const char *method = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        const size_t len = strlen(services[i]->name);
        const ProtobufCMethodDescriptor *m = !strncmp(path + 1, services[i]->name, len) && path[1 + len] == '/'
                                                 ? protobuf_c_service_descriptor_get_method_by_name(services[i], method)
                                                 : NULL;
        if (m)
            return m->output;
    }
    fprintf(stderr, "brrctl: there is no method %s\n", path);
    abort();
}

/* How long a call may take; 0: 30 s. */
static int64_t timeout_of(const char *path) {
    static const struct {
        const char *path;
        int minutes;
    } slow[] = {{"/brr.v1.Admin/Doctor", 2}, {"/brr.v1.Checkpoints/Promote", 10}, {"/brr.v1.Checkpoints/Verify", 10},
                {"/brr.v1.Hooks/Test", 15},  {"/brr.v1.Jobs/Validate", 10},       {"/brr.v1.Models/Describe", 10},
                {"/brr.v1.Models/Load", 10}};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (!strcmp(path, slow[i].path))
            return slow[i].minutes * (int64_t)MINUTE_MS;
    return 0;
}

/* The answer as a message; NULL with an error when it cannot be unpacked. */
static void *unpack(const char *path, const void *data, size_t len, struct brr_error *err) {
    ProtobufCMessage *message = protobuf_c_message_unpack(answer_of(path), NULL, len, data);
    if (message)
        output_clean_message(message);
    else
        brrctl_set_error(err, BRR_INTERNAL, "the daemon's answer cannot be read; brrctl and brrd differ in version?");
    return message;
}

void brrctl_answer_done(void *answer) { protobuf_c_message_free_unpacked(*(ProtobufCMessage **)answer, NULL); }

void *brrctl_ask_within(brr_client *client, const char *path, const ProtobufCMessage *request, int64_t timeout_ms,
                        struct brr_error *err) {
    size_t len, answer_len = 0;
    void *answer = NULL, *message = NULL;
    OWNED_MEMORY uint8_t *bytes = pack(request, &len);
    if (!brr_call(client, &(struct brr_request){path, bytes, len, timeout_ms}, &answer, &answer_len, err))
        message = unpack(path, answer, answer_len, err);
    brr_free(answer);
    return message;
}

void *brrctl_ask(brr_client *client, const char *path, const ProtobufCMessage *request, struct brr_error *err) {
    return brrctl_ask_within(client, path, request, timeout_of(path), err);
}

void *brrctl_call(const struct arguments *o, const char *path, const ProtobufCMessage *request, int *ret_exit) {
    struct brr_error err;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, ret_exit);
    if (!client)
        return NULL;
    void *message = brrctl_ask(client, path, request, &err);
    if (!message)
        *ret_exit = brrctl_fail_call(&err);
    return message;
}

/* Answers until the end of the call, or until visit has enough. */
static int visit_all(brr_rpc *rpc, const char *path, brrctl_visit_fn *visit, void *ctx, struct brr_error *err) {
    const void *data;
    size_t len;
    int rc;
    while (!(rc = brr_rpc_next(rpc, -1, &data, &len, err))) {
        ProtobufCMessage *message = unpack(path, data, len, err);
        if (!message)
            return err->code;
        bool more = visit(ctx, message);
        protobuf_c_message_free_unpacked(message, NULL);
        if (!more)
            return 0;
    }
    return rc == BRR_END ? 0 : rc;
}

static int follow(brr_client *client, const char *path, const ProtobufCMessage *request, brrctl_visit_fn *visit, void *ctx,
                  struct brr_error *err) {
    OWNED_POINTER(brr_rpc_close) brr_rpc *rpc = NULL;
    size_t len;
    OWNED_MEMORY uint8_t *bytes = pack(request, &len);
    int rc;
    if ((rc = brr_rpc_open(client, path, 0, &rpc, err)) || (rc = brr_rpc_send(rpc, bytes, len, -1, err)) ||
        (rc = brr_rpc_half_close(rpc, err)))
        return rc;
    return visit_all(rpc, path, visit, ctx, err);
}

int brrctl_follow(const struct arguments *o, const char *path, const ProtobufCMessage *request, brrctl_visit_fn *visit, void *ctx) {
    int code = 0;
    struct brr_error err;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    if (follow(client, path, request, visit, ctx, &err))
        code = brrctl_fail_call(&err);
    return code;
}

void brrctl_show_items(const struct arguments *o, const struct brrctl_view *v, void *const *items, size_t n) {
    struct listing listing = {.rows = 0};
    const bool lists = !o->json && v->row;
    if (!o->json && !n && v->none)
        puts(v->none);
    if (lists)
        listing_begin(&listing, v->titles);
    for (size_t i = 0; i < n; i++) {
        if (o->json) {
            struct json_writer *w = output_begin();
            output_fields(w, items[i], v->json);
            if (v->put)
                v->put(w, items[i]);
            output_end(w);
        } else if (v->row) {
            v->row(&listing, items[i]);
        } else {
            v->print(items[i]);
        }
    }
    if (lists)
        listing_end(&listing);
}

int brrctl_show(const struct arguments *o, const char *path, const ProtobufCMessage *request, const struct brrctl_view *v) {
    int code = 0;
    OWNED_ANSWER ProtobufCMessage *answer = brrctl_call(o, path, request, &code);
    if (!answer)
        return code;
    if (!v->items) {
        brrctl_show_items(o, v, (void *const *)&answer, 1);
        return 0;
    }
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(answer->descriptor, v->items);
    const char *at = (const char *)answer;
    brrctl_show_items(o, v, *(void *const *const *)(const void *)(at + f->offset), *(const size_t *)(at + f->quantifier_offset));
    return 0;
}

char *brrctl_ref(const char *ref, char *buf, size_t size) {
    bool path = *ref && *ref != '/' && !str_starts(ref, "job:") && !str_starts(ref, "upload:") && !strstr(ref, "://") &&
                (strchr(ref, '/') || str_ends(ref, ".safetensors"));
    if (!path || fsio_absolute(buf, size, ref, NULL))
        str_copy(buf, size, ref);
    return buf;
}
