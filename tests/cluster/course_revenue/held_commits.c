/* Stops the process whenever it is about to give a Delta table's log its next entry: the data files are written, and the
   entry lies beside its place under another name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
    static int (*real)(int, const char *, int, const char *, int);
    if (real == NULL) {
        real = (int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat");
    }
    if (strstr(to, "/_delta_log/") != NULL && strstr(from, ".json#") != NULL) {
        /* to this thread: to the process, another one would take it, and this one go on for a moment */
        raise(SIGSTOP);
    }
    return real(from_directory, from, to_directory, to, flags);
}
