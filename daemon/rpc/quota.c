#include "daemon/rpc/quota.h"

#include "base/base.h"

enum { MAX_WATCHES = 16 /* of a kind, of one caller */, MAX_RESERVE = 16, CALLER_TENTHS = 8 };

/* Calls that stay open and cost the daemon something all the time. */
static const char *const watches[] = {"/brr.v1.Metrics/Watch", "/grpc.health.v1.Health/Watch",
                                      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"};

/* Most open calls of one caller and this method. */
static int most_of_method(const struct quota_limits *limits, const char *path) {
    if (STR_AMONG(path, watches) >= 0)
        return MAX_WATCHES;
    return strcmp(path, "/brr.v1.Stream/Run") != 0 ? limits->calls : limits->sessions;
}

bool quota_exceeded(const struct quota_limits *limits, const struct quota_use *use, enum role role, const char *path,
                    struct err *err) {
    const int reserve = limits->calls / 8 < MAX_RESERVE ? limits->calls / 8 : MAX_RESERVE;
    const int most = role >= ROLE_ADMIN ? limits->calls : limits->calls - reserve;
    const int of_method = most_of_method(limits, path), of_caller = (int)(((long long)limits->calls * CALLER_TENTHS + 9) / 10);
    if (!strcmp(path, "/grpc.health.v1.Health/Check"))
        return false;
    if (use->calls > most)
        return err_set(err, ERR_EXHAUSTED,
                       "%d calls are open already (limits.calls, of which %d are kept for the role admin); try again later",
                       use->calls - 1, reserve) != 0;
    if (role >= ROLE_ADMIN)
        return false;
    if (use->of_method > of_method)
        return err_set(err, ERR_EXHAUSTED, "this caller has %d calls of %s open already; one caller may have %d",
                       use->of_method - 1, path, of_method) != 0;
    if (use->of_caller > of_caller)
        return err_set(err, ERR_EXHAUSTED, "this caller has %d calls open already; one caller may have %d of limits.calls (%d)",
                       use->of_caller - 1, of_caller, limits->calls) != 0;
    return false;
}
