#include "plot/picture.h"

#include <dlfcn.h>

enum {
    PICTURE_BYTES = 512 << 20,
    PICTURE_SCALE = 2,
    PICTURE_MOST_PIXELS = 30000,
    CAIRO_FORMAT_ARGB32 = 0,
    CAIRO_STATUS_WRITE_ERROR = 11
};
#define POINTS_PER_PIXEL 0.75

/* As in the headers of librsvg 2.52 and cairo 1.10, whose ABIs are stable. */
struct rsvg_rectangle {
    double x, y, width, height;
};
struct g_error {
    uint32_t domain;
    int code;
    char *message;
};
typedef int cairo_write_fn(void *closure, const unsigned char *data, unsigned length);

#define PICTURE_FUNCTIONS(X)                                                                                                       \
    X(void *, rsvg_handle_new_from_data, (const uint8_t *data, size_t len, struct g_error **error))                                \
    X(int, rsvg_handle_get_intrinsic_size_in_pixels, (void *handle, double *width, double *height))                                \
    X(int, rsvg_handle_render_document, (void *handle, void *cairo, const struct rsvg_rectangle *at, struct g_error **error))      \
    X(void, g_object_unref, (void *object))                                                                                        \
    X(void, g_error_free, (struct g_error * error))                                                                                \
    X(void *, cairo_image_surface_create, (int format, int width, int height))                                                     \
    X(void *, cairo_pdf_surface_create_for_stream, (cairo_write_fn * write, void *closure, double width, double height))           \
    X(int, cairo_surface_write_to_png_stream, (void *surface, cairo_write_fn *write, void *closure))                               \
    X(void *, cairo_create, (void *surface))                                                                                       \
    X(void, cairo_destroy, (void *cairo))                                                                                          \
    X(void, cairo_surface_finish, (void *surface))                                                                                 \
    X(int, cairo_surface_status, (void *surface))                                                                                  \
    X(void, cairo_surface_destroy, (void *surface))

static struct {
#define PICTURE_MEMBER(type, name, arguments) type(*name) arguments;
    PICTURE_FUNCTIONS(PICTURE_MEMBER)
#undef PICTURE_MEMBER
} lib;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static char missing[160]; /* why the library cannot be used; "" = it can */

/* A function of the library, or of one that it brings. */
static void find(void *library, const char *name, void *ret_function) {
    void *address = dlsym(library, name);
    if (!address && !*missing)
        str_format(missing, sizeof missing, "it has no function %s", name);
    *(void **)ret_function = address;
}

static void open_library(void) {
    void *library = dlopen("librsvg-2.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        str_copy(missing, sizeof missing, "it is not installed");
        return;
    }
#define PICTURE_FIND(type, name, arguments) find(library, #name, (void *)&lib.name);
    PICTURE_FUNCTIONS(PICTURE_FIND)
#undef PICTURE_FIND
}

bool picture_named(const char *path) { return str_ends_nocase(path, ".png") || str_ends_nocase(path, ".pdf"); }

bool picture_known(const char *path) { return str_ends_nocase(path, ".svg") || picture_named(path); }

static int keep_bytes(void *closure, const unsigned char *data, unsigned length) {
    struct str *out = closure;
    str_append(out, data, length);
    return str_ok(out) ? 0 : CAIRO_STATUS_WRITE_ERROR;
}

static int invalid(const char *path, struct g_error *error, struct err *err) {
    int rc = err_set(err, ERR_INVALID, "%s: the SVG cannot be drawn: %.300s", path, error ? error->message : "no reason given");
    if (error)
        lib.g_error_free(error);
    return rc;
}

/* Draws the document on a surface of width × height units. */
static int draw(const char *path, void *handle, void *surface, const struct rsvg_rectangle *size, struct err *err) {
    struct g_error *error = NULL;
    void *cairo = lib.cairo_create(surface);
    int good = lib.rsvg_handle_render_document(handle, cairo, size, &error);
    lib.cairo_destroy(cairo);
    return good ? 0 : invalid(path, error, err);
}

static void surface_free(void **surface) { lib.cairo_surface_destroy(*surface); }

static void handle_free(void **handle) {
    if (*handle)
        lib.g_object_unref(*handle);
}

static int make_pdf(const char *path, void *handle, const struct rsvg_rectangle *pixels, struct str *out, struct err *err) {
    struct rsvg_rectangle points = {0, 0, pixels->width * POINTS_PER_PIXEL, pixels->height * POINTS_PER_PIXEL};
    OWNED(surface_free) void *surface = lib.cairo_pdf_surface_create_for_stream(keep_bytes, out, points.width, points.height);
    int rc = draw(path, handle, surface, &points, err);
    lib.cairo_surface_finish(surface);
    if (rc)
        return rc;
    return lib.cairo_surface_status(surface) ? err_set(err, ERR_EXHAUSTED, "%s: out of memory for a PDF", path) : 0;
}

static int make_png(const char *path, void *handle, const struct rsvg_rectangle *pixels, struct str *out, struct err *err) {
    double longest = fmax(pixels->width, pixels->height), scale = fmin(PICTURE_SCALE, PICTURE_MOST_PIXELS / longest);
    struct rsvg_rectangle size = {0, 0, ceil(pixels->width * scale), ceil(pixels->height * scale)};
    OWNED(surface_free) void *surface = lib.cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)size.width, (int)size.height);
    int rc = draw(path, handle, surface, &size, err);
    if (rc)
        return rc;
    if (lib.cairo_surface_write_to_png_stream(surface, keep_bytes, out))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for %.0f × %.0f pixels", path, size.width, size.height);
    return 0;
}

int picture_write(const char *path, const char *svg, size_t len, struct err *err) {
    struct rsvg_rectangle pixels = {0};
    struct g_error *error = NULL;
    OWNED(str_done) struct str out = str_of(PICTURE_BYTES);
    pthread_once(&opened, open_library);
    if (*missing)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: PNG and PDF need librsvg (librsvg-2.so.2): %s; install the package librsvg2-2, or name a file *.svg",
                       path, missing);
    OWNED(handle_free) void *handle = lib.rsvg_handle_new_from_data((const uint8_t *)svg, len, &error);
    if (!handle)
        return invalid(path, error, err);
    if (!lib.rsvg_handle_get_intrinsic_size_in_pixels(handle, &pixels.width, &pixels.height) || pixels.width < 1 ||
        pixels.height < 1)
        return err_set(err, ERR_INVALID, "%s: the SVG has no width and height in pixels", path);
    int rc =
        str_ends_nocase(path, ".pdf") ? make_pdf(path, handle, &pixels, &out, err) : make_png(path, handle, &pixels, &out, err);
    return rc ? rc : fsio_write_text(path, &out, err);
}
