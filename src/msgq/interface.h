/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface.h - the interface between a debugger and a library for message queues: the "MPI
 * message queue dumping interface", version 1.0 of the MPI Forum (2013), without its part for
 * dynamic processes (compatibility 2).
 *
 * The debugger loads the library into its own process, and calls its functions mqs_...().  The
 * library reads the inspected process, which is stopped, through functions that the debugger
 * provides in tables.
 */
#ifndef MSGQ_INTERFACE_H
#define MSGQ_INTERFACE_H

#include <stddef.h>

#define MSGQ_COMPATIBILITY 2

typedef unsigned long mqs_taddr_t; /* an address in the inspected process */
typedef long mqs_tword_t;

/* the debugger's types; only pointers to them are passed */
typedef struct mqs_image_ mqs_image;
typedef struct mqs_process_ mqs_process;
typedef struct mqs_type_ mqs_type;
/* the library's types */
typedef struct _mqs_image_info mqs_image_info;
typedef struct _mqs_process_info mqs_process_info;

typedef struct {
    int short_size, int_size, long_size, long_long_size, pointer_size, bool_size, size_t_size;
} mqs_target_type_sizes;

enum { mqs_ok, mqs_no_information, mqs_end_of_list, mqs_first_user_code = 100 };

typedef enum {
    mqs_lang_c = 'c',
    mqs_lang_cplus = 'C',
    mqs_lang_f77 = 'f',
    mqs_lang_f90 = 'F'
} mqs_lang_code;

typedef enum { mqs_pending_sends, mqs_pending_receives, mqs_unexpected_messages } mqs_op_class;

enum { MQS_INVALID_PROCESS = -1 };

enum mqs_status { mqs_st_pending, mqs_st_matched, mqs_st_complete };

typedef struct {
    mqs_taddr_t unique_id;
    mqs_tword_t local_rank, size;
    char name[64];
} mqs_communicator;

typedef struct {
    int status;                                          /* enum mqs_status */
    mqs_tword_t desired_local_rank, desired_global_rank; /* -1: any */
    int tag_wild;
    mqs_tword_t desired_tag, desired_length;
    int system_buffer;
    mqs_taddr_t buffer;
    /* of a match, and of sends */
    mqs_tword_t actual_local_rank, actual_global_rank, actual_tag, actual_length;
    char extra_text[5][64];
} mqs_pending_operation;

/* ---- the debugger's functions ---- */

typedef void *(*mqs_malloc_ft)(size_t);
typedef void (*mqs_free_ft)(void *);
typedef void (*mqs_dprints_ft)(const char *);
typedef char *(*mqs_errorstring_ft)(int);
typedef void (*mqs_put_image_info_ft)(mqs_image *, mqs_image_info *);
typedef mqs_image_info *(*mqs_get_image_info_ft)(mqs_image *);
typedef void (*mqs_put_process_info_ft)(mqs_process *, mqs_process_info *);
typedef mqs_process_info *(*mqs_get_process_info_ft)(mqs_process *);

typedef struct mqs_basic_callbacks {
    mqs_malloc_ft mqs_malloc_fp;
    mqs_free_ft mqs_free_fp;
    mqs_dprints_ft mqs_dprints_fp;
    mqs_errorstring_ft mqs_errorstring_fp;
    mqs_put_image_info_ft mqs_put_image_info_fp;
    mqs_get_image_info_ft mqs_get_image_info_fp;
    mqs_put_process_info_ft mqs_put_process_info_fp;
    mqs_get_process_info_ft mqs_get_process_info_fp;
} mqs_basic_callbacks;

typedef void (*mqs_get_type_sizes_ft)(mqs_process *, mqs_target_type_sizes *);
typedef int (*mqs_find_function_ft)(mqs_image *, char *, mqs_lang_code, mqs_taddr_t *);
typedef int (*mqs_find_symbol_ft)(mqs_image *, char *, mqs_taddr_t *);
typedef mqs_type *(*mqs_find_type_ft)(mqs_image *, char *, mqs_lang_code);
typedef int (*mqs_field_offset_ft)(mqs_type *, char *);
typedef int (*mqs_sizeof_ft)(mqs_type *);

typedef struct mqs_image_callbacks {
    mqs_get_type_sizes_ft mqs_get_type_sizes_fp;
    mqs_find_function_ft mqs_find_function_fp;
    mqs_find_symbol_ft mqs_find_symbol_fp;
    mqs_find_type_ft mqs_find_type_fp;
    mqs_field_offset_ft mqs_field_offset_fp;
    mqs_sizeof_ft mqs_sizeof_fp;
} mqs_image_callbacks;

typedef int (*mqs_get_global_rank_ft)(mqs_process *);
typedef mqs_image *(*mqs_get_image_ft)(mqs_process *);
typedef int (*mqs_fetch_data_ft)(mqs_process *, mqs_taddr_t, int, void *);
typedef void (*mqs_target_to_host_ft)(mqs_process *, const void *, void *, int);

typedef struct mqs_process_callbacks {
    mqs_get_global_rank_ft mqs_get_global_rank_fp;
    mqs_get_image_ft mqs_get_image_fp;
    mqs_fetch_data_ft mqs_fetch_data_fp;
    mqs_target_to_host_ft mqs_target_to_host_fp;
} mqs_process_callbacks;

/* ---- the library's functions: library.c ---- */

#define MSGQ_API __attribute__((visibility("default")))

MSGQ_API void mqs_setup_basic_callbacks(const mqs_basic_callbacks *);
MSGQ_API char *mqs_version_string(void);
MSGQ_API int mqs_version_compatibility(void);
MSGQ_API int mqs_dll_taddr_width(void);
MSGQ_API char *mqs_dll_error_string(int);
MSGQ_API int mqs_setup_image(mqs_image *, const mqs_image_callbacks *);
MSGQ_API int mqs_image_has_queues(mqs_image *, char **);
MSGQ_API void mqs_destroy_image_info(mqs_image_info *);
MSGQ_API int mqs_setup_process(mqs_process *, const mqs_process_callbacks *);
MSGQ_API void mqs_destroy_process_info(mqs_process_info *);
MSGQ_API int mqs_process_has_queues(mqs_process *, char **);
MSGQ_API int mqs_update_communicator_list(mqs_process *);
MSGQ_API int mqs_setup_communicator_iterator(mqs_process *);
MSGQ_API int mqs_get_communicator(mqs_process *, mqs_communicator *);
MSGQ_API int mqs_get_comm_group(mqs_process *, int *);
MSGQ_API int mqs_next_communicator(mqs_process *);
MSGQ_API int mqs_setup_operation_iterator(mqs_process *, int);
MSGQ_API int mqs_next_operation(mqs_process *, mqs_pending_operation *);

#endif
