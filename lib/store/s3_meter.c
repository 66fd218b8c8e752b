#include "store/s3_meter.h"

#include <curl/curl.h>

enum { LABEL_BYTES = 64 };

static bool asks(const struct s3_call *call, const char *name) {
    for (int i = 0; i < call->n_query; i++)
        if (!strcmp(call->query[i].name, name))
            return true;
    return false;
}

/* Purpose of a request; a few words, for any server. */
static const char *op_of(const struct s3_call *call) {
    if (!strcmp(call->method, "GET"))
        return *call->key ? "get" : "list";
    if (!strcmp(call->method, "HEAD"))
        return "head";
    if (!strcmp(call->method, "PUT"))
        return asks(call, "partNumber") ? "put_part" : "put";
    if (!strcmp(call->method, "POST"))
        return asks(call, "uploads") ? "begin_upload" : "complete_upload";
    return "abort_upload";
}

static const char *failure_word(const struct fetch_request *f) {
    if (f->sink_errno)
        return "disk";
    if (f->failure == CURLE_OPERATION_TIMEDOUT)
        return "timeout";
    return f->failure == CURLE_PARTIAL_FILE ? "short_body" : "connection";
}

static void count(struct metrics *m, const char *family, const char *op, const char *other) {
    char labels[LABEL_BYTES];
    str_format(labels, sizeof labels, "%s\x1f%s", op, other);
    metric_add(metrics_series(m, family, labels), 1);
}

void s3_meter_open(struct metrics *m) {
    static const char *const families[] = {"brrd_s3_received_bytes_total", "brrd_s3_sent_bytes_total", "brrd_s3_in_flight"};
    for (size_t i = 0; m && i < sizeof families / sizeof *families; i++)
        metric_add(metrics_series(m, families[i], ""), 0);
}

void s3_meter_begin(struct metrics *m) {
    if (m)
        metric_add(metrics_series(m, "brrd_s3_in_flight", ""), 1);
}

void s3_meter_end(struct metrics *m, const struct s3_call *call, bool given_up) {
    const struct fetch_request *f = &call->fetch;
    const char *op = op_of(call);
    char status[16];
    if (!m)
        return;
    str_format(status, sizeof status, "%d", f->status);
    bool known = f->status >= 100 && f->status < 600;
    count(m, "brrd_s3_requests_total", op, given_up ? "given_up" : f->failure ? failure_word(f) : known ? status : "other");
    metric_add(metrics_series(m, "brrd_s3_in_flight", ""), -1);
    metric_add(metrics_series(m, "brrd_s3_received_bytes_total", ""), (double)f->received_bytes);
    metric_add(metrics_series(m, "brrd_s3_sent_bytes_total", ""), (double)f->sent_bytes);
    if (!given_up)
        metric_observe(metrics_series(m, "brrd_s3_request_duration_seconds", op), f->seconds);
    if (f->answer.date_s >= 0)
        metric_set(metrics_series(m, "brrd_s3_clock_skew_seconds", ""), (double)f->answer.skew_s);
}

static const char *reason_of(const struct fetch_request *f, const struct s3_error *e, bool is_short) {
    if (is_short)
        return "short_body";
    if (f->failure)
        return failure_word(f);
    if (e->slow_down)
        return "slow_down";
    if (e->transient)
        return f->status == 408 || !strcmp(e->code, "RequestTimeout") ? "timeout" : "server_error";
    return e->expired ? "credentials" : e->wrong_region ? "region" : "clock_skew";
}

void s3_meter_retry(struct metrics *m, const struct s3_call *call, const struct s3_error *e, bool is_short) {
    if (m)
        count(m, "brrd_s3_retries_total", op_of(call), reason_of(&call->fetch, e, is_short));
}
