#include "client/conn.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { CALL_TIMEOUT_S = 30, MAX_MESSAGE = 64 << 20 };

struct conn {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    char endpoint[256];
};

int conn_open(const char *endpoint, struct conn **ret, struct err *err) {
    const char *env = getenv("BRR_ENDPOINT");
    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    endpoint = endpoint ? endpoint : env && *env ? env : "unix:/run/brrd/brrd.sock";
    if (!str_copy(c->endpoint, sizeof c->endpoint, endpoint)) {
        free(c);
        return err_set(err, ERR_INVALID, "the endpoint is longer than 255 bytes");
    }
    static char key[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
    grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = key, .value.integer = MAX_MESSAGE};
    grpc_channel_args args = {1, &arg};
    grpc_init();
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    c->channel = grpc_channel_create(c->endpoint, credentials, &args);
    grpc_channel_credentials_release(credentials);
    c->queue = grpc_completion_queue_create_for_pluck(NULL);
    *ret = c;
    return 0;
}

void conn_close(struct conn *c) {
    if (!c)
        return;
    grpc_channel_destroy(c->channel);
    grpc_completion_queue_shutdown(c->queue);
    grpc_completion_queue_destroy(c->queue);
    free(c);
    grpc_shutdown();
}

const char *conn_endpoint(const struct conn *c) { return c->endpoint; }

/* One call under way. */
struct exchange {
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *received;
};

/* Run a batch to its end. */
static bool run(struct conn *c, struct exchange *x, grpc_op *ops, size_t n) {
    if (grpc_call_start_batch(x->call, ops, n, x, NULL) != GRPC_CALL_OK)
        return false;
    grpc_event e = grpc_completion_queue_pluck(c->queue, x, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    return e.type == GRPC_OP_COMPLETE && e.success;
}

static void begin(struct conn *c, struct exchange *x, const char *method, int timeout_s) {
    grpc_slice path = grpc_slice_from_copied_string(method);
    gpr_timespec deadline = timeout_s ? gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(timeout_s, GPR_TIMESPAN))
                                      : gpr_inf_future(GPR_CLOCK_REALTIME);
    memset(x, 0, sizeof *x);
    grpc_metadata_array_init(&x->initial);
    grpc_metadata_array_init(&x->trailing);
    x->details = grpc_empty_slice();
    x->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->queue, path, NULL, deadline, NULL);
    grpc_slice_unref(path);
}

static void finish(struct exchange *x) {
    if (x->received)
        grpc_byte_buffer_destroy(x->received);
    grpc_metadata_array_destroy(&x->initial);
    grpc_metadata_array_destroy(&x->trailing);
    grpc_slice_unref(x->details);
    grpc_call_unref(x->call);
}

static bool send_request(struct conn *c, struct exchange *x, const void *request, size_t len) {
    grpc_slice slice = grpc_slice_from_copied_buffer(request, len);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_SEND_MESSAGE},
                      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
                      {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    ops[1].data.send_message.send_message = buffer;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &x->initial;
    bool ok = run(c, x, ops, 4);
    grpc_byte_buffer_destroy(buffer);
    grpc_slice_unref(slice);
    return ok;
}

/* Next answer as malloc'd bytes; false at the end. */
static bool next_answer(struct conn *c, struct exchange *x, uint8_t **ret, size_t *ret_len) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &x->received;
    if (!run(c, x, &op, 1) || !x->received)
        return false;
    grpc_byte_buffer_reader reader;
    grpc_byte_buffer_reader_init(&reader, x->received);
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    *ret_len = GRPC_SLICE_LENGTH(all);
    *ret = malloc(*ret_len + 1);
    if (*ret)
        memcpy(*ret, GRPC_SLICE_START_PTR(all), *ret_len);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(x->received);
    x->received = NULL;
    return *ret != NULL;
}

static int read_status(struct conn *c, struct exchange *x, struct err *err) {
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &x->trailing;
    op.data.recv_status_on_client.status = &x->status;
    op.data.recv_status_on_client.status_details = &x->details;
    if (!run(c, x, &op, 1))
        return err_set(err, ERR_INTERNAL, "the call to %s ended without a status", c->endpoint);
    if (x->status == GRPC_STATUS_OK)
        return 0;
    char *text = grpc_slice_to_c_string(x->details);
    int code = -(int)x->status;
    if (x->status == GRPC_STATUS_UNAVAILABLE)
        err_set(err, code, "no daemon answers at %s; start one (./dev up, or brrd --config FILE) or set BRR_ENDPOINT", c->endpoint);
    else
        err_set(err, code, "%s", *text ? text : err_name(code));
    gpr_free(text);
    return code;
}

int conn_call(struct conn *c, const char *method, const void *request, size_t len, uint8_t **ret, size_t *ret_len,
              struct err *err) {
    struct exchange x;
    uint8_t *data = NULL;
    size_t n = 0;
    begin(c, &x, method, CALL_TIMEOUT_S);
    bool answered = send_request(c, &x, request, len) && next_answer(c, &x, &data, &n);
    int rc = read_status(c, &x, err);
    finish(&x);
    if (!rc && !answered)
        rc = err_set(err, ERR_INTERNAL, "%s gave no answer", method);
    if (rc) {
        free(data);
        return rc;
    }
    *ret = data;
    *ret_len = n;
    return 0;
}

int conn_stream(struct conn *c, const char *method, const void *request, size_t len, conn_visit_fn *visit, void *ctx,
                struct err *err) {
    struct exchange x;
    uint8_t *data = NULL;
    size_t n = 0;
    int stop = 0;
    begin(c, &x, method, 0);
    if (send_request(c, &x, request, len))
        while (!stop && next_answer(c, &x, &data, &n)) {
            stop = visit(ctx, data, n);
            free(data);
        }
    if (stop)
        grpc_call_cancel(x.call, NULL);
    int rc = read_status(c, &x, err);
    finish(&x);
    return stop ? stop : rc;
}
