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
	procEvtOpenChannelConfig     = wevtapi.NewProc("EvtOpenChannelConfig")
	procEvtGetChannelConfig      = wevtapi.NewProc("EvtGetChannelConfigProperty")
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
	evtLogLastWriteTime      = 2
	evtLogFileSize           = 3
	evtLogNumberOfLogRecords = 5
	evtChannelConfigType     = 2
	evtChannelTypeAnalytic   = 2
	evtChannelTypeDebug      = 3
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
	case variantInt8, variantInt16, variantInt32, variantInt64:
		unused := 64 - v.bits()
		return strconv.FormatInt(int64(v.value<<unused)>>unused, 10)
	case variantUint8, variantUint16, variantUint32, variantUint64:
		return strconv.FormatUint(v.uint(), 10)
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

// bits is the width of an integer. The types are in the order of their widths, each signed
// and unsigned.
func (v *evtVariant) bits() uint32 { return 8 << ((v.kind - variantInt8) / 2) }

// uint reads an integer of whatever width.
func (v *evtVariant) uint() uint64 {
	if v.kind < variantInt8 || v.kind > variantUint64 {
		return 0
	}
	unused := 64 - v.bits()
	return v.value << unused >> unused
}

// fileTime converts a FILETIME: 100 ns since 1601.
func fileTime(v uint64) time.Time {
	ft := windows.Filetime{LowDateTime: uint32(v), HighDateTime: uint32(v >> 32)}
	return time.Unix(0, ft.Nanoseconds()).UTC()
}

// evtOpen calls a function that returns a handle. Wine has these functions without
// an event log behind them: they return no handle and set no error.
//
//go:uintptrescapes
func evtOpen(proc *windows.LazyProc, args ...uintptr) (evtHandle, error) {
	if err := proc.Find(); err != nil {
		return 0, err
	}
	r, _, err := proc.Call(args...)
	if r != 0 {
		return evtHandle(r), nil
	}
	if errors.Is(err, windows.ERROR_SUCCESS) {
		return 0, fmt.Errorf("%s returned nothing and no error", proc.Name)
	}
	return 0, evtError(proc, err)
}

// evtError says what went wrong in the words of package logs, as far as it has some.
func evtError(proc *windows.LazyProc, err error) error {
	switch {
	case errors.Is(err, windows.ERROR_EVT_CHANNEL_NOT_FOUND):
		err = logs.ErrNoSuchChannel
	case errors.Is(err, windows.ERROR_EVT_SUBSCRIPTION_TO_DIRECT_CHANNEL):
		err = logs.ErrDirectChannel
	case errors.Is(err, windows.ERROR_EVT_INVALID_OPERATION_OVER_ENABLED_DIRECT_CHANNEL):
		err = logs.ErrChannelEnabled
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		err = fs.ErrPermission
	}
	return fmt.Errorf("%s: %w", proc.Name, err)
}

func evtQuery(channel, xpath string, newestFirst bool) (evtHandle, error) {
	texts, err := utf16Pointers(channel, xpath)
	if err != nil {
		return 0, err
	}
	flags := uintptr(evtQueryChannelPath | evtQueryForward)
	if newestFirst {
		flags = evtQueryChannelPath | evtQueryReverse
	}
	return evtOpen(procEvtQuery, 0, uintptr(unsafe.Pointer(texts[0])), uintptr(unsafe.Pointer(texts[1])), flags)
}

// evtSubscribe opens a pull subscription that begins after a record, or with the
// oldest one when that is 0. signal must stay open as long as the subscription.
func evtSubscribe(signal windows.Handle, channel, xpath string, after uint64) (evtHandle, error) {
	// No character that XML would need escaped can be in a channel name.
	texts, err := utf16Pointers(channel, xpath, fmt.Sprintf(`<BookmarkList><Bookmark Channel="%s" RecordId="%d" IsCurrent="true"/></BookmarkList>`, channel, after))
	if err != nil {
		return 0, err
	}
	bookmark, flags := evtHandle(0), uintptr(evtSubscribeOldest)
	if after > 0 {
		if bookmark, err = evtOpen(procEvtCreateBookmark, uintptr(unsafe.Pointer(texts[2]))); err != nil {
			return 0, err
		}
		defer bookmark.close()
		flags = evtSubscribeBookmark
	}
	return evtOpen(procEvtSubscribe, 0, uintptr(signal), uintptr(unsafe.Pointer(texts[0])), uintptr(unsafe.Pointer(texts[1])), uintptr(bookmark), 0, 0, flags)
}

// evtNext fills events and returns their number. It waits for the first of them for so long.
func evtNext(results evtHandle, events []evtHandle, patience time.Duration) (int, error) {
	var n uint32
	r, _, err := procEvtNext.Call(uintptr(results), uintptr(len(events)), uintptr(unsafe.Pointer(&events[0])), uintptr(patience.Milliseconds()), 0, uintptr(unsafe.Pointer(&n)))
	switch {
	case r != 0:
		return int(n), nil
	case errors.Is(err, windows.ERROR_NO_MORE_ITEMS), errors.Is(err, windows.ERROR_INVALID_OPERATION):
		// A pull subscription reports an invalid operation while its signal
		// is not set.
		return 0, errNoMoreEvents
	case errors.Is(err, windows.ERROR_TIMEOUT):
		return 0, errEventsLate
	case errors.Is(err, windows.ERROR_EVT_QUERY_RESULT_STALE):
		return 0, errEventsStale
	}
	return 0, evtError(procEvtNext, err)
}

// render renders an event's values. The variants point into the buffer of the reader, so they
// are valid until the next event is rendered.
func (r *eventReader) render(context, event evtHandle) ([]evtVariant, error) {
	for range 4 {
		var used, count uint32
		p := unsafe.Pointer(unsafe.SliceData(r.buf))
		ok, _, err := procEvtRender.Call(uintptr(context), uintptr(event), evtRenderEventValues,
			uintptr(len(r.buf)*8), uintptr(p), uintptr(unsafe.Pointer(&used)), uintptr(unsafe.Pointer(&count)))
		if ok != 0 {
			return unsafe.Slice((*evtVariant)(p), count), nil
		}
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) {
			return nil, fmt.Errorf("EvtRender: %w", err)
		}
		r.buf = make([]uint64, used/8+1)
	}
	return nil, fmt.Errorf("EvtRender: %w", windows.ERROR_INSUFFICIENT_BUFFER)
}

// evtMessage formats the message of an event in the system's language.
func evtMessage(publisher, event evtHandle) (string, bool) {
	buf := make([]uint16, 1024)
	for range 4 {
		var used uint32
		r, _, e := procEvtFormatMessage.Call(uintptr(publisher), uintptr(event), 0, 0, 0, evtFormatMessageEvent,
			uintptr(len(buf)), uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&used)))
		// The message exists, with some of its inserts left as %1.
		partly := errors.Is(e, windows.ERROR_EVT_UNRESOLVED_VALUE_INSERT) || errors.Is(e, windows.ERROR_EVT_UNRESOLVED_PARAMETER_INSERT) || errors.Is(e, windows.ERROR_EVT_MAX_INSERTS_REACHED)
		if r != 0 || partly && used > 0 && int(used) <= len(buf) {
			return strings.TrimRight(windows.UTF16ToString(buf[:min(int(used), len(buf))]), "\r\n "), true
		}
		if !errors.Is(e, windows.ERROR_INSUFFICIENT_BUFFER) || int(used) <= len(buf) {
			return "", false
		}
		buf = make([]uint16, used)
	}
	return "", false
}
