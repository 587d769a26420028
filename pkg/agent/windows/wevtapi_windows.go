// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// The functions of winevt.h that the event log needs. Names and values of
// constants are those of that header, without its prefix.
var (
	wevtapi                      = windows.NewLazySystemDLL("wevtapi.dll")
	procEvtQuery                 = wevtapi.NewProc("EvtQuery")
	procEvtSubscribe             = wevtapi.NewProc("EvtSubscribe")
	procEvtCreateBookmark        = wevtapi.NewProc("EvtCreateBookmark")
	procEvtNext                  = wevtapi.NewProc("EvtNext")
	procEvtRender                = wevtapi.NewProc("EvtRender")
	procEvtCreateRenderContext   = wevtapi.NewProc("EvtCreateRenderContext")
	procEvtOpenPublisherMetadata = wevtapi.NewProc("EvtOpenPublisherMetadata")
	procEvtFormatMessage         = wevtapi.NewProc("EvtFormatMessage")
	procEvtOpenLog               = wevtapi.NewProc("EvtOpenLog")
	procEvtGetLogInfo            = wevtapi.NewProc("EvtGetLogInfo")
	procEvtClose                 = wevtapi.NewProc("EvtClose")
)

const (
	evtQueryChannelPath      = 0x1
	evtQueryForward          = 0x100
	evtQueryReverse          = 0x200
	evtSubscribeOldest       = 2
	evtSubscribeBookmark     = 3
	evtRenderEventValues     = 0
	evtRenderContextSystem   = 1
	evtRenderContextUser     = 2
	evtFormatMessageEvent    = 1
	evtOpenChannelPath       = 1
	evtLogNumberOfLogRecords = 5
)

// Indexes of the system values of an event.
const (
	evtSystemProviderName = 0
	evtSystemEventID      = 2
	evtSystemLevel        = 4
	evtSystemTimeCreated  = 8
	evtSystemRecordID     = 9
	evtSystemChannel      = 14
	evtSystemValues       = 18
)

// Types of an evtVariant.
const (
	variantString   = 1
	variantAnsi     = 2
	variantInt8     = 3
	variantUint8    = 4
	variantInt16    = 5
	variantUint16   = 6
	variantInt32    = 7
	variantUint32   = 8
	variantInt64    = 9
	variantUint64   = 10
	variantBool     = 13
	variantBinary   = 14
	variantGUID     = 15
	variantFileTime = 17
	variantSID      = 19
	variantHexInt32 = 20
	variantHexInt64 = 21
	variantTypeMask = 0x7f
	variantArray    = 0x80
)

// Errors of winevt.h.
const (
	errorNoMoreItems         = windows.Errno(259)
	errorTimeout             = windows.Errno(1460)
	errorInsufficientBuffer  = windows.Errno(122)
	errorEvtChannelNotFound  = windows.Errno(15007)
	errorEvtInvalidQuery     = windows.Errno(15001)
	errorEvtUnresolvedValue  = windows.Errno(15029)
	errorEvtUnresolvedParam  = windows.Errno(15030)
	errorEvtMaxInsertReached = windows.Errno(15031)
)

// evtHandle is EVT_HANDLE.
type evtHandle uintptr

func (h evtHandle) close() {
	if h != 0 {
		procEvtClose.Call(uintptr(h)) //nolint:errcheck // nothing to be done about it
	}
}

// evtVariant is EVT_VARIANT.
type evtVariant struct {
	value uint64
	count uint32
	kind  uint32
}

// pointer reads the value as a pointer into the buffer that the variant was
// rendered to.
func (v *evtVariant) pointer() unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&v.value))
}

// text renders any scalar value for people.
func (v *evtVariant) text() string {
	if v.kind&variantArray != 0 {
		return ""
	}
	switch v.kind & variantTypeMask {
	case variantString:
		if p := v.pointer(); p != nil {
			return windows.UTF16PtrToString((*uint16)(p))
		}
	case variantAnsi:
		if p := v.pointer(); p != nil {
			return windows.BytePtrToString((*byte)(p))
		}
	case variantInt8:
		return strconv.Itoa(int(int8(v.value)))
	case variantInt16:
		return strconv.Itoa(int(int16(v.value)))
	case variantInt32:
		return strconv.Itoa(int(int32(v.value)))
	case variantInt64:
		return strconv.FormatInt(int64(v.value), 10)
	case variantUint8:
		return strconv.Itoa(int(uint8(v.value)))
	case variantUint16:
		return strconv.Itoa(int(uint16(v.value)))
	case variantUint32:
		return strconv.FormatUint(uint64(uint32(v.value)), 10)
	case variantUint64:
		return strconv.FormatUint(v.value, 10)
	case variantBool:
		return strconv.FormatBool(uint32(v.value) != 0)
	case variantHexInt32:
		return "0x" + strconv.FormatUint(uint64(uint32(v.value)), 16)
	case variantHexInt64:
		return "0x" + strconv.FormatUint(v.value, 16)
	case variantFileTime:
		return fileTime(v.value).Format(time.RFC3339Nano)
	case variantGUID:
		if p := v.pointer(); p != nil {
			return (*windows.GUID)(p).String()
		}
	case variantSID:
		if p := v.pointer(); p != nil {
			return (*windows.SID)(p).String()
		}
	case variantBinary:
		if p := v.pointer(); p != nil && v.count > 0 {
			return fmt.Sprintf("%x", unsafe.Slice((*byte)(p), v.count))
		}
	}
	return ""
}

// uint reads an integer of whatever width.
func (v *evtVariant) uint() uint64 {
	switch v.kind {
	case variantUint8, variantInt8:
		return v.value & 0xff
	case variantUint16, variantInt16:
		return v.value & 0xffff
	case variantUint32, variantInt32:
		return v.value & 0xffffffff
	case variantUint64, variantInt64:
		return v.value
	}
	return 0
}

// fileTime converts a FILETIME: 100 ns since 1601.
func fileTime(v uint64) time.Time {
	ft := windows.Filetime{LowDateTime: uint32(v), HighDateTime: uint32(v >> 32)}
	return time.Unix(0, ft.Nanoseconds()).UTC()
}

// evtOpen calls a function that returns a handle. Wine has these functions without
// an event log behind them: they return no handle and set no error.
func evtOpen(proc *windows.LazyProc, args ...uintptr) (evtHandle, error) {
	if err := proc.Find(); err != nil {
		return 0, err
	}
	r, _, err := proc.Call(args...)
	if r != 0 {
		return evtHandle(r), nil
	}
	switch {
	case errors.Is(err, windows.ERROR_SUCCESS):
		return 0, fmt.Errorf("%s returned nothing and no error", proc.Name)
	case errors.Is(err, errorEvtChannelNotFound):
		return 0, fmt.Errorf("%s: %w", proc.Name, logs.ErrNoSuchChannel)
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return 0, fmt.Errorf("%s: %w", proc.Name, fs.ErrPermission)
	}
	return 0, fmt.Errorf("%s: %w", proc.Name, err)
}

func evtQuery(channel, xpath string, newestFirst bool) (evtHandle, error) {
	c, err := windows.UTF16PtrFromString(channel)
	if err != nil {
		return 0, err
	}
	x, err := windows.UTF16PtrFromString(xpath)
	if err != nil {
		return 0, err
	}
	flags := uintptr(evtQueryChannelPath | evtQueryForward)
	if newestFirst {
		flags = evtQueryChannelPath | evtQueryReverse
	}
	return evtOpen(procEvtQuery, 0, uintptr(unsafe.Pointer(c)), uintptr(unsafe.Pointer(x)), flags)
}

// evtSubscribe opens a pull subscription that begins after a record, or with the
// oldest one when that is 0. signal must stay open as long as the subscription.
func evtSubscribe(signal windows.Handle, channel, xpath string, after uint64) (evtHandle, error) {
	c, err := windows.UTF16PtrFromString(channel)
	if err != nil {
		return 0, err
	}
	x, err := windows.UTF16PtrFromString(xpath)
	if err != nil {
		return 0, err
	}
	bookmark, flags := evtHandle(0), uintptr(evtSubscribeOldest)
	if after > 0 {
		// No character that XML would need escaped can be in a channel name.
		xml, err := windows.UTF16PtrFromString(fmt.Sprintf(
			`<BookmarkList><Bookmark Channel="%s" RecordId="%d" IsCurrent="true"/></BookmarkList>`, channel, after))
		if err != nil {
			return 0, err
		}
		if bookmark, err = evtOpen(procEvtCreateBookmark, uintptr(unsafe.Pointer(xml))); err != nil {
			return 0, err
		}
		defer bookmark.close()
		flags = evtSubscribeBookmark
	}
	return evtOpen(procEvtSubscribe, 0, uintptr(signal), uintptr(unsafe.Pointer(c)), uintptr(unsafe.Pointer(x)), uintptr(bookmark), 0, 0, flags)
}

// evtNext fills events and returns how many there were; none without an error when
// there are no more (now).
func evtNext(results evtHandle, events []evtHandle) (int, error) {
	var n uint32
	r, _, err := procEvtNext.Call(uintptr(results), uintptr(len(events)), uintptr(unsafe.Pointer(&events[0])), 0, 0, uintptr(unsafe.Pointer(&n)))
	switch {
	case r != 0:
		return int(n), nil
	case errors.Is(err, errorNoMoreItems), errors.Is(err, errorTimeout), errors.Is(err, windows.ERROR_INVALID_OPERATION):
		// A pull subscription reports an invalid operation while its signal
		// is not set.
		return 0, nil
	}
	return 0, fmt.Errorf("EvtNext: %w", err)
}

// evtRender renders an event's values. The variants point into the buffer, which is
// returned for that reason and can be given back to be used again.
func evtRender(context, event evtHandle, buf []uint64) (values []evtVariant, _ []uint64, err error) {
	for range 4 {
		var used, count uint32
		var p unsafe.Pointer
		if len(buf) > 0 {
			p = unsafe.Pointer(&buf[0])
		}
		r, _, e := procEvtRender.Call(uintptr(context), uintptr(event), evtRenderEventValues,
			uintptr(len(buf)*8), uintptr(p), uintptr(unsafe.Pointer(&used)), uintptr(unsafe.Pointer(&count)))
		if r != 0 {
			if count == 0 {
				return nil, buf, nil
			}
			return unsafe.Slice((*evtVariant)(p), count), buf, nil
		}
		if !errors.Is(e, errorInsufficientBuffer) {
			return nil, buf, fmt.Errorf("EvtRender: %w", e)
		}
		buf = make([]uint64, used/8+1)
	}
	return nil, buf, fmt.Errorf("EvtRender: %w", errorInsufficientBuffer)
}

// evtMessage formats the message of an event in the system's language.
func evtMessage(publisher, event evtHandle) (string, bool) {
	buf := make([]uint16, 1024)
	for range 4 {
		var used uint32
		r, _, e := procEvtFormatMessage.Call(uintptr(publisher), uintptr(event), 0, 0, 0, evtFormatMessageEvent,
			uintptr(len(buf)), uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&used)))
		// The message is there, with some of its inserts left as %1.
		partly := errors.Is(e, errorEvtUnresolvedValue) || errors.Is(e, errorEvtUnresolvedParam) || errors.Is(e, errorEvtMaxInsertReached)
		if r != 0 || partly && used > 0 && int(used) <= len(buf) {
			return strings.TrimRight(windows.UTF16ToString(buf[:min(int(used), len(buf))]), "\r\n "), true
		}
		if !errors.Is(e, errorInsufficientBuffer) || int(used) <= len(buf) {
			return "", false
		}
		buf = make([]uint16, used)
	}
	return "", false
}
