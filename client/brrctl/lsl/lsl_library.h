/* lsl_library: liblsl, loaded at run time (the Lab Streaming Layer is no package of Debian). LSL_LIBRARY names the file; otherwise
 * the names under which it is installed are tried. Handles are the library's own. Any thread. */
#pragma once

#include "base/base.h"

typedef struct lsl_streaminfo_ *lsl_streaminfo;
typedef struct lsl_xml_ *lsl_xml;
typedef struct lsl_inlet_ *lsl_inlet;
typedef struct lsl_outlet_ *lsl_outlet;
typedef struct lsl_resolver_ *lsl_resolver;

enum { LSL_FLOAT32 = 1, LSL_STRING = 3 };               /* channel formats */
enum { LSL_OK = 0, LSL_TIMED_OUT = -1, LSL_LOST = -2 }; /* error codes */

/* Return type, name without "lsl_", parameters: every function that is used, all of version 1.12. */
#define LSL_FUNCTIONS(F)                                                                                                           \
    F(int32_t, library_version, (void))                                                                                            \
    F(double, local_clock, (void))                                                                                                 \
    F(int32_t, resolve_all, (lsl_streaminfo * buffer, uint32_t n, double wait_s))                                                  \
    F(lsl_resolver, create_continuous_resolver_byprop, (const char *property, const char *value, double forget_s))                 \
    F(int32_t, resolver_results, (lsl_resolver resolver, lsl_streaminfo * buffer, uint32_t n))                                     \
    F(void, destroy_continuous_resolver, (lsl_resolver resolver))                                                                  \
    F(lsl_streaminfo, create_streaminfo,                                                                                           \
      (const char *name, const char *type, int32_t channels, double rate_hz, int32_t format, const char *source_id))               \
    F(void, destroy_streaminfo, (lsl_streaminfo info))                                                                             \
    F(const char *, get_name, (lsl_streaminfo info))                                                                               \
    F(const char *, get_type, (lsl_streaminfo info))                                                                               \
    F(int32_t, get_channel_count, (lsl_streaminfo info))                                                                           \
    F(double, get_nominal_srate, (lsl_streaminfo info))                                                                            \
    F(int32_t, get_channel_format, (lsl_streaminfo info))                                                                          \
    F(const char *, get_source_id, (lsl_streaminfo info))                                                                          \
    F(const char *, get_uid, (lsl_streaminfo info))                                                                                \
    F(const char *, get_hostname, (lsl_streaminfo info))                                                                           \
    F(lsl_xml, get_desc, (lsl_streaminfo info))                                                                                    \
    F(lsl_xml, child, (lsl_xml e, const char *name))                                                                               \
    F(lsl_xml, next_sibling_n, (lsl_xml e, const char *name))                                                                      \
    F(int32_t, empty, (lsl_xml e))                                                                                                 \
    F(const char *, child_value_n, (lsl_xml e, const char *name))                                                                  \
    F(lsl_xml, append_child, (lsl_xml e, const char *name))                                                                        \
    F(lsl_xml, append_child_value, (lsl_xml e, const char *name, const char *value))                                               \
    F(lsl_inlet, create_inlet, (lsl_streaminfo info, int32_t buffer_s, int32_t chunk, int32_t recover))                            \
    F(void, destroy_inlet, (lsl_inlet inlet))                                                                                      \
    F(lsl_streaminfo, get_fullinfo, (lsl_inlet inlet, double timeout_s, int32_t *code))                                            \
    F(void, open_stream, (lsl_inlet inlet, double timeout_s, int32_t *code))                                                       \
    F(double, time_correction, (lsl_inlet inlet, double timeout_s, int32_t *code))                                                 \
    F(unsigned long, pull_chunk_f,                                                                                                 \
      (lsl_inlet inlet, float *data, double *stamps, unsigned long n_data, unsigned long n_stamps, double timeout_s,               \
       int32_t *code))                                                                                                             \
    F(lsl_outlet, create_outlet, (lsl_streaminfo info, int32_t chunk, int32_t buffer_s))                                           \
    F(void, destroy_outlet, (lsl_outlet outlet))                                                                                   \
    F(int32_t, push_sample_ftp, (lsl_outlet outlet, const float *data, double stamp, int32_t pushthrough))                         \
    F(int32_t, push_sample_strtp, (lsl_outlet outlet, const char **data, double stamp, int32_t pushthrough))

struct lsl_library {
#define LSL_MEMBER(type, name, parameters) type(*name) parameters;
    LSL_FUNCTIONS(LSL_MEMBER)
#undef LSL_MEMBER
};

/* Loaded once, and kept until the process ends. NOT_FOUND says how to get it; UNSUPPORTED names a function that it lacks. */
int lsl_library_load(const struct lsl_library **ret, struct err *err);
