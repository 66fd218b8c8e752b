/* members: the same for several members of a struct, each of which is named once; at most 24. Structs are evaluated for each.
 *
 *     COPY_MEMBERS(*out, *job, attempts, restarts);          out->attempts = job->attempts; out->restarts = job->restarts;
 *     struct score s = {SAME_MEMBERS(*all, f1, precision)};  .f1 = all->f1, .precision = all->precision
 *     COPY_TEXTS(*out, *job, id, name);                      str_copy(out->id, sizeof out->id, job->id); and so on
 *     LEND_TEXTS(*m, *job, id, name);                        the same, lent to a message that only reads them
 *     FREE_MEMBERS(*c, lines, names);                        free(c->lines); free(c->names);
 *     JSON_MEMBERS(w, *all, f1, precision);                  base/json.h: json_put_f64(w, "f1", all->f1); and so on
 */
#pragma once

#define COPY_MEMBERS(to, from, ...) EACH_MEMBER(COPY_MEMBER, to, from, __VA_ARGS__)
#define SAME_MEMBERS(from, ...)     MEMBERS_PASSES(MEMBERS_LIST(from, __VA_ARGS__))
#define COPY_TEXTS(to, from, ...)   EACH_MEMBER(COPY_TEXT, to, from, __VA_ARGS__)
#define LEND_TEXTS(to, from, ...)   EACH_MEMBER(LEND_TEXT, to, from, __VA_ARGS__)
#define FREE_MEMBERS(of, ...)       EACH_MEMBER(FREE_MEMBER, of, , __VA_ARGS__)
/* DO(a, b, member) for each member. */
#define EACH_MEMBER(DO, a, b, ...)                                                                                                 \
    do {                                                                                                                           \
        MEMBERS_PASSES(MEMBERS_DO(DO, a, b, __VA_ARGS__))                                                                          \
    } while (0)

#define COPY_MEMBER(to, from, member) (to).member = (from).member;
#define COPY_TEXT(to, from, member)   str_copy((to).member, sizeof(to).member, (from).member);
#define LEND_TEXT(to, from, member)   (to).member = (char *)(uintptr_t)(from).member;
#define FREE_MEMBER(of, _, member)    free((of).member);

/* A macro is not expanded again inside itself: the next member is left for the next pass over the text. */
#define MEMBERS_DO(DO, a, b, member, ...) DO(a, b, member) __VA_OPT__(MEMBERS_DO_NEXT MEMBERS_NOTHING(DO, a, b, __VA_ARGS__))
#define MEMBERS_LIST(from, member, ...)   .member = (from).member __VA_OPT__(, MEMBERS_LIST_NEXT MEMBERS_NOTHING(from, __VA_ARGS__))
#define MEMBERS_NOTHING                   ()
#define MEMBERS_DO_NEXT()                 MEMBERS_DO
#define MEMBERS_LIST_NEXT()               MEMBERS_LIST
#define MEMBERS_PASSES(...)               MEMBERS_9(MEMBERS_9(MEMBERS_9(__VA_ARGS__)))
#define MEMBERS_9(...)                    MEMBERS_3(MEMBERS_3(MEMBERS_3(__VA_ARGS__)))
#define MEMBERS_3(...)                    MEMBERS_1(MEMBERS_1(MEMBERS_1(__VA_ARGS__)))
#define MEMBERS_1(...)                    __VA_ARGS__
