/* GET /api/v1/…: lists as JSON, the answers of methods whose rows have a route. The loop makes them, for the caller
 * of the request and with its rights; this thread prints them. */

#include "brr/v1/common.pb-c.h"
#include "daemon/http/http_parts.h"
#include "daemon/rpc/errands.h"
#include "proto/json.h"

/* Of ANSWERS that have not left, one address has fewer. */
enum { API_BYTES = 64 << 20, REQUEST_BYTES = 256, ANSWERS = HTTP_OF_ADDRESS + 16 };

static atomic_int leaving; /* answers that clients have not read to their end */

static void on_sent(void *text) {
    atomic_fetch_sub(&leaving, 1);
    free(text);
}

/* No page of another site, nor a frame, script or cache of one, gets it. */
static enum MHD_Result answer_message(const struct http_request *r, unsigned status, const ProtobufCMessage *message,
                                      int64_t retry_after_ms) {
    OWNED(str_done) struct str body = str_of(API_BYTES);
    struct json_writer w = json_to(&body);
    char retry[40], *text;
    json_begin_object(&w, NULL);
    message_json(&w, message, NULL);
    json_end(&w, '}');
    str_puts(&body, "\n");
    str_format(retry, sizeof retry, "Retry-After: %lld", (long long)(retry_after_ms + 999) / 1000);
    const size_t len = body.len;
    const char *const last = retry_after_ms ? retry : *r->renewed ? r->renewed : NULL;
    if (!(text = str_take(&body)) && status == MHD_HTTP_INTERNAL_SERVER_ERROR)
        return MHD_NO; /* no memory for a sentence */
    if (!text)
        return http_api_refuse(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "RESOURCE_EXHAUSTED",
                               "The list is too long for one answer; ask for less, or over RPC.", 0);
    atomic_fetch_add(&leaving, 1);
    const struct http_answer answer = {.status = status,
                                       .type = "application/json",
                                       .data = text,
                                       .len = len,
                                       .sent = on_sent,
                                       .headers = {"Cache-Control: no-store", "Cross-Origin-Resource-Policy: same-origin", last}};
    return http_answer(r->connection, &answer);
}

enum MHD_Result http_api_refuse(const struct http_request *r, unsigned status, const char *reason, const char *message,
                                int64_t retry_after_ms) {
    Brr__V1__ErrorDetail detail = BRR__V1__ERROR_DETAIL__INIT;
    detail.reason = (char *)(uintptr_t)reason;
    detail.message = (char *)(uintptr_t)message;
    detail.retry_after_ms = retry_after_ms;
    return answer_message(r, status, &detail.base, retry_after_ms);
}

const struct rpc_method *http_api_method(const struct http_request *r) {
    const struct http_state *state = &r->server->http->state;
    for (size_t i = 0; i < state->n_methods; i++)
        if (state->methods[i]->route && !strcmp(state->methods[i]->route, r->url))
            return state->methods[i];
    return NULL;
}

/* ---- ?limit=10&open=true: fields of the request ---- */

struct query {
    ProtobufCMessage *request;
    struct err err; /* of the first argument that is none of its fields */
};

/* False: the field has no such value. */
static bool set_field(ProtobufCMessage *request, const ProtobufCFieldDescriptor *f, const char *value) {
    void *at = (char *)request + f->offset;
    int64_t number = 0;
    switch (f->label == PROTOBUF_C_LABEL_REPEATED ? PROTOBUF_C_TYPE_BYTES : f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = !strcmp(value, "true");
        return *(protobuf_c_boolean *)at || !strcmp(value, "false");
    case PROTOBUF_C_TYPE_INT64:
        return str_to_i64(value, at);
    case PROTOBUF_C_TYPE_INT32:
        if (!str_to_i64(value, &number) || number < INT32_MIN || number > INT32_MAX)
            return false;
        *(int32_t *)at = (int32_t)number;
        return true;
    case PROTOBUF_C_TYPE_STRING:
        *(const char **)at = value; /* it lives as long as the HTTP request */
        return true;
    default:
        return false;
    }
}

static enum MHD_Result take_argument(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value) {
    struct query *q = ctx;
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(q->request->descriptor, key);
    (void)kind;
    if (f && value && set_field(q->request, f, value))
        return MHD_YES;
    err_set(&q->err, ERR_INVALID, "%.60s%s", key, f ? ": this argument has no such value" : " is no argument here");
    return MHD_NO;
}

/* ---- the answer ---- */

static enum MHD_Result answer_errand(const struct http_request *r, const struct errand *errand) {
    struct errand_answer answer;
    struct err err;
    int rc = errands_run(r->server->http->state.errands, errand, &answer, &err);
    OWNED_MEMORY uint8_t *bytes = answer.data;
    const ProtobufCMessageDescriptor *type = errand->method->answer;
    ProtobufCMessage *message = bytes ? protobuf_c_message_unpack(type, NULL, answer.len, bytes) : NULL;
    if (bytes && !message)
        rc = err_set(&err, ERR_EXHAUSTED, "out of memory for the list; try again later");
    const char *reason = bytes ? "RESOURCE_EXHAUSTED" : answer.reason;
    const unsigned status = rc == ERR_EXHAUSTED ? MHD_HTTP_TOO_MANY_REQUESTS : http_status(rc);
    const enum MHD_Result result = message ? answer_message(r, MHD_HTTP_OK, message, 0)
                                           : http_api_refuse(r, status, reason, err.message, answer.retry_after_ms);
    protobuf_c_message_free_unpacked(message, NULL);
    return result;
}

enum MHD_Result http_api(const struct http_request *r) {
    const struct rpc_method *method = http_api_method(r);
    struct auth_caller caller = r->caller;
    union {
        ProtobufCMessage base;
        char bytes[REQUEST_BYTES];
    } request;
    struct query query = {.request = &request.base};
    if (!method || method->request->sizeof_message > sizeof request)
        return http_api_refuse(r, MHD_HTTP_NOT_FOUND, "NOT_FOUND",
                               "There is no such list; docs/protocol.md of this version names them.", 0);
    if (atomic_load(&leaving) >= ANSWERS)
        return http_api_refuse(r, MHD_HTTP_SERVICE_UNAVAILABLE, "OVERLOADED", "Many lists are being read; try again.", 1000);
    protobuf_c_message_init(method->request, &request.base);
    MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, take_argument, &query);
    if (query.err.code)
        return http_api_refuse(r, MHD_HTTP_BAD_REQUEST, "INVALID_ARGUMENT", query.err.message, 0);
    caller.all |= !auth_has_tokens(r->server->http->state.auth); /* as on the pages */
    return answer_errand(r, &(struct errand){method, &caller, &request.base});
}
