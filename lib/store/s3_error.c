#include "store/s3_error.h"

#include "store/s3_xml.h"

static const struct {
    const char *code;
    int status; /* stands for the code where the answer has no body */
    int err;
    const char *text;
} meanings[] = {
    {"NoSuchBucket", 0, ERR_NOT_FOUND, "there is no such bucket; correct the store's url or endpoint"},
    {"NoSuchKey", 404, ERR_NOT_FOUND, "there is no such object"},
    {"NoSuchUpload", 0, ERR_ABORTED, "somebody ended the upload; try again"},
    {"InvalidAccessKeyId", 0, ERR_UNAUTHENTICATED, "the server does not know the access key; correct the store's credentials"},
    {"SignatureDoesNotMatch", 0, ERR_UNAUTHENTICATED, "the secret key is wrong; correct the store's credentials"},
    {"ExpiredToken", 0, ERR_UNAUTHENTICATED, "the credentials have expired; renew them"},
    {"InvalidToken", 0, ERR_UNAUTHENTICATED, "the session token is not valid; renew the credentials"},
    {"RequestTimeTooSkewed", 0, ERR_PRECONDITION, "this machine's clock is wrong; set it (timedatectl)"},
    {"AuthorizationHeaderMalformed", 0, ERR_PRECONDITION, "the bucket lies in another region; set the store's region"},
    {"PermanentRedirect", 301, ERR_PRECONDITION, "the bucket lies elsewhere; set the store's region or endpoint"},
    {"TemporaryRedirect", 307, ERR_PRECONDITION, "the bucket lies elsewhere; set the store's region or endpoint"},
    {"RequestPaymentRequired", 0, ERR_DENIED, "readers pay for this bucket; set requester_pays: true"},
    {"InvalidObjectState", 0, ERR_PRECONDITION, "the object is archived; restore it first"},
    {"NotImplemented", 501, ERR_UNSUPPORTED, "the server does not offer this"},
    {"AccessDenied", 403, ERR_DENIED,
     "access is denied; grant it to these credentials, or set anonymous: true if the bucket is public"},
    {"", 401, ERR_UNAUTHENTICATED, "the server wants other credentials"},
    {"PreconditionFailed", 412, ERR_ABORTED, "the object changed while it was read; try again"},
    {"InvalidRange", 416, ERR_RANGE, "the object ends before the bytes that were asked for"},
};

void s3_error_read(const struct fetch_request *a, struct s3_error *ret) {
    *ret = (struct s3_error){0};
    if (!a->failure || a->status)
        (void)s3_xml_text(a->note, a->note_len, "Code", ret->code, sizeof ret->code);
    const char *code = ret->code;
    ret->slow_down = !strcmp(code, "SlowDown") || a->status == 429 || a->status == 503;
    ret->skewed = !strcmp(code, "RequestTimeTooSkewed");
    ret->expired = !strcmp(code, "ExpiredToken") || !strcmp(code, "InvalidToken") || !strcmp(code, "TokenRefreshRequired");
    ret->wrong_region = *a->answer.region && (a->status == 301 || a->status == 307 || a->status == 400);
    ret->transient = a->failure && !a->sink_errno && fetch_transient(a);
    if (!a->failure)
        ret->transient = ret->slow_down || a->status == 500 || a->status == 502 || a->status == 504 || a->status == 408 ||
                         !strcmp(code, "RequestTimeout") || !strcmp(code, "InternalError") || !strcmp(code, "OperationAborted");
}

static int set_failure(const struct fetch_request *a, const char *object, int tries, struct err *err) {
    if (a->sink_errno)
        return err_errno(err, a->sink_errno, "cannot write what %s holds", object);
    if (fetch_untrusted(a))
        return err_set(err, ERR_UNAVAILABLE,
                       "%s: %s: the server's certificate is of a CA that is not known here; name the CA's PEM file: "
                       "stores.NAME.ca_file, brrctl store --ca-file, or AWS_CA_BUNDLE",
                       object, a->failure_text);
    return err_set(err, ERR_UNAVAILABLE, "%s: %s, in each of %d tries; check the network and the store's endpoint", object,
                   a->failure_text, tries);
}

int s3_error_set(const struct s3_error *e, const struct fetch_request *a, const char *object, int tries, struct err *err) {
    char detail[160], said[120];
    if (a->failure)
        return set_failure(a, object, tries, err);
    (void)s3_xml_text(a->note, a->note_len, "Message", said, sizeof said);
    str_format(detail, sizeof detail, "HTTP %d%s%s%s%.80s", a->status, *e->code ? " " : "", e->code, *said ? ": " : "", said);
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (*e->code ? !strcmp(e->code, meanings[i].code) : a->status == meanings[i].status)
            return *a->answer.location && a->status / 100 == 3
                       ? err_set(err, meanings[i].err, "%s: %s (%s, to %.120s)", object, meanings[i].text, detail,
                                 a->answer.location)
                       : err_set(err, meanings[i].err, "%s: %s (%s)", object, meanings[i].text, detail);
    if (e->transient)
        return err_set(err, ERR_UNAVAILABLE, "%s: the server is overloaded or out of order, in each of %d tries (%s); try later",
                       object, tries, detail);
    int code = a->status == 403 ? ERR_DENIED : a->status == 404 ? ERR_NOT_FOUND : a->status / 100 == 4 ? ERR_INVALID : ERR_UNKNOWN;
    return err_set(err, code, "%s: the server refuses (%s)", object, detail);
}
