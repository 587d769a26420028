// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/facts"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// eventLog implements [logs.EventLog] with the functions of wevtapi.dll.
type eventLog struct{}

// EventLog returns the event log of the machine.
func (h *Host) EventLog() (logs.EventLog, error) {
	if err := wevtapi.Load(); err != nil {
		return nil, fmt.Errorf("loading wevtapi.dll: %w", err)
	}
	return eventLog{}, nil
}

// HasProvider reports whether a source of the classic event log is registered.
func (eventLog) HasProvider(_ context.Context, name string) (bool, error) {
	if strings.ContainsAny(name, `\/`) {
		return false, nil
	}
	return keyExists(`SYSTEM\CurrentControlSet\Services\EventLog\Application\` + name)
}

// Channels lists the channels that have events. There are about a thousand without.
func (eventLog) Channels(ctx context.Context) ([]logs.EventChannel, error) {
	windir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, fmt.Errorf("finding the Windows directory: %w", err)
	}
	// The directory has the names of all channels. Its sizes and times are those of when each file was opened.
	files, err := os.ReadDir(filepath.Join(windir, `System32\winevt\Logs`))
	if err != nil {
		return nil, fmt.Errorf("listing the event log's files: %w", err)
	}
	var channels []logs.EventChannel
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(f.Name(), ".evtx")
		if !ok {
			continue
		}
		if c, ok := describeChannel(strings.ReplaceAll(name, "%4", "/")); ok {
			channels = append(channels, c)
		}
	}
	slices.SortFunc(channels, func(a, b logs.EventChannel) int { return strings.Compare(a.Name, b.Name) })
	return channels, nil
}

// describeChannel describes a channel, and says whether it has events. A size or a time that it does not tell is zero.
func describeChannel(channel string) (logs.EventChannel, bool) {
	c := logs.EventChannel{Name: channel}
	name, err := windows.UTF16PtrFromString(channel)
	if err != nil {
		return c, false
	}
	log, err := evtOpen(procEvtOpenLog, 0, uintptr(unsafe.Pointer(name)), evtOpenChannelPath)
	if err != nil {
		return c, false
	}
	defer log.close()
	if n, ok := logInfo(log, evtLogNumberOfLogRecords); !ok || n.uint() == 0 {
		return c, false
	}
	if size, ok := logInfo(log, evtLogFileSize); ok {
		c.Size = int64(size.uint())
	}
	if written, ok := logInfo(log, evtLogLastWriteTime); ok && written.kind == variantFileTime {
		c.Modified = fileTime(written.value)
	}
	return c, true
}

// logInfo returns a property of a channel that was opened, if it has that.
func logInfo(log evtHandle, property uintptr) (v evtVariant, ok bool) {
	var used uint32
	r, _, _ := procEvtGetLogInfo.Call(uintptr(log), property, unsafe.Sizeof(v), uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&used)))
	return v, r != 0
}

// Query opens a query, or a subscription to follow the channel.
func (eventLog) Query(_ context.Context, q logs.EventQuery) (logs.EventReader, error) {
	if q.NewestFirst && isDirect(q.Channel) {
		return nil, logs.ErrDirectChannel
	}
	r := &eventReader{query: q, publishers: make(map[string]evtHandle)}
	var err error
	if q.Follow {
		// Set at the beginning, so that the first Next reads events.
		if r.signal, err = windows.CreateEvent(nil, 1, 1, nil); err != nil {
			return nil, fmt.Errorf("creating an event object: %w", err)
		}
	}
	r.results, err = r.open()
	if err == nil {
		r.system, err = evtOpen(procEvtCreateRenderContext, 0, 0, evtRenderContextSystem)
	}
	if err == nil {
		r.user, err = evtOpen(procEvtCreateRenderContext, 0, 0, evtRenderContextUser)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// isDirect says whether a channel is an analytic or debug channel. One whose configuration cannot be
// read counts as another: who reads it learns what is wrong.
func isDirect(channel string) bool {
	name, err := windows.UTF16PtrFromString(channel)
	if err != nil {
		return false
	}
	config, err := evtOpen(procEvtOpenChannelConfig, 0, uintptr(unsafe.Pointer(name)), 0)
	if err != nil {
		return false
	}
	defer config.close()
	var v evtVariant
	var used uint32
	r, _, _ := procEvtGetChannelConfig.Call(uintptr(config), evtChannelConfigType, 0, unsafe.Sizeof(v), uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&used)))
	kind := v.uint()
	return r != 0 && (kind == evtChannelTypeAnalytic || kind == evtChannelTypeDebug)
}

// open opens the query, or the subscription, behind what was read of it.
func (r *eventReader) open() (evtHandle, error) {
	q := r.query
	if !q.NewestFirst {
		q.AfterRecord = r.after()
	}
	switch {
	case q.Follow:
		return evtSubscribe(r.signal, q.Channel, xpath(q, false, 0), q.AfterRecord)
	case q.NewestFirst:
		return evtQuery(q.Channel, cmp.Or(r.text, xpath(q, true, r.last)), true)
	}
	return evtQuery(q.Channel, xpath(q, true, 0), false)
}

// after is the record behind which a query that is read oldest first goes on.
func (r *eventReader) after() uint64 { return cmp.Or(r.last, r.query.AfterRecord) }

// reopen is open for a query that is stale.
func (r *eventReader) reopen(ctx context.Context) error {
	if r.text != "" {
		return errEventsStale // it does not say behind which record
	}
	// The bookmark of a subscription works in a channel that was cleared. What of a direct channel is the newest record would
	// be found by reading all of it.
	if !r.query.Follow && !r.query.NewestFirst && !isDirect(r.query.Channel) {
		err := stillThere(r.after(), func() (uint64, error) { return logs.EdgeRecord(ctx, eventLog{}, r.query.Channel, true) })
		if err != nil {
			return err
		}
	}
	results, err := r.open()
	if err == nil {
		r.results.close()
		r.results = results
	}
	return err
}

// xpath selects the events of a query, those before a record if that is not 0. A subscription has a bookmark instead of the record,
// which also works after the channel was cleared.
func xpath(q logs.EventQuery, byRecord bool, before uint64) string {
	var terms []string
	if q.Provider != "" {
		// Neither quote can be in the name of a service.
		terms = append(terms, fmt.Sprintf("Provider[@Name='%s']", strings.ReplaceAll(q.Provider, "'", "")))
	}
	if byRecord && q.AfterRecord > 0 {
		terms = append(terms, fmt.Sprintf("(EventRecordID > %d)", q.AfterRecord))
	}
	if before > 0 {
		terms = append(terms, fmt.Sprintf("(EventRecordID < %d)", before))
	}
	if q.ErrorsOnly {
		// WINEVENT_LEVEL_CRITICAL and WINEVENT_LEVEL_ERROR of winmeta.h.
		terms = append(terms, "(Level=1 or Level=2)")
	}
	// Milliseconds, rounded outwards: the log engine compares exactly.
	const layout = "2006-01-02T15:04:05.000Z"
	if !q.Since.IsZero() {
		terms = append(terms, fmt.Sprintf("TimeCreated[@SystemTime>='%s']", q.Since.UTC().Truncate(time.Millisecond).Format(layout)))
	}
	if !q.Until.IsZero() {
		terms = append(terms, fmt.Sprintf("TimeCreated[@SystemTime<='%s']", q.Until.UTC().Add(time.Millisecond).Format(layout)))
	}
	if len(terms) == 0 {
		return "*"
	}
	return "*[System[" + strings.Join(terms, " and ") + "]]"
}

type eventReader struct {
	query logs.EventQuery
	// text selects the events in place of the query, if it is not empty.
	text string
	// last is the record that was read last, 0 if none was.
	last    uint64
	results evtHandle
	// signal belongs to a subscription.
	signal       windows.Handle
	system, user evtHandle
	batch        [eventBatch]evtHandle
	next, have   int
	buf          []uint64
	// publishers are the metadata of providers, opened once; 0 for those that
	// have none.
	publishers map[string]evtHandle
}

func (r *eventReader) Close() error {
	for ; r.next < r.have; r.next++ {
		r.batch[r.next].close()
	}
	for _, p := range r.publishers {
		p.close()
	}
	r.user.close()
	r.system.close()
	r.results.close()
	if r.signal != 0 {
		return windows.CloseHandle(r.signal)
	}
	return nil
}

func (r *eventReader) Next(ctx context.Context) (*logs.Event, error) {
	h, err := r.fetch(ctx)
	if err != nil {
		return nil, err
	}
	defer h.close()
	return r.read(h)
}

// fetch returns the next event. The caller closes it.
func (r *eventReader) fetch(ctx context.Context) (evtHandle, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if r.next == r.have {
		n, err := nextEvents(ctx, r.query.Follow, func(patience time.Duration) (int, error) {
			return evtNext(r.results, r.batch[:], patience)
		}, func() error { return r.reopen(ctx) })
		if err != nil {
			return 0, err
		}
		r.next, r.have = 0, n
	}
	h := r.batch[r.next]
	r.next++
	return h, nil
}

// read renders one event.
func (r *eventReader) read(h evtHandle) (*logs.Event, error) {
	values, err := r.systemValues(h)
	if err != nil {
		return nil, err
	}
	e := &logs.Event{
		RecordID: values[evtSystemRecordID].uint(),
		Time:     fileTime(values[evtSystemTimeCreated].value),
		Channel:  values[evtSystemChannel].text(),
		Provider: values[evtSystemProviderName].text(),
		EventID:  uint32(values[evtSystemEventID].uint()),
		Level:    cmp.Or(levelNames[values[evtSystemLevel].uint()], "Information"),
	}
	message, ok := evtMessage(r.publisher(e.Provider), h)
	if !ok {
		message = r.userData(h)
	}
	e.Message = message
	return e, nil
}

// systemValues are valid until the next event is rendered.
func (r *eventReader) systemValues(h evtHandle) ([]evtVariant, error) {
	values, err := r.render(r.system, h)
	if err != nil {
		return nil, err
	}
	if len(values) < evtSystemValues {
		return nil, fmt.Errorf("an event has %d system values, want %d", len(values), evtSystemValues)
	}
	r.last = values[evtSystemRecordID].uint()
	return values, nil
}

// levelNames are those of winmeta.xml. Classic sources write 0 for information.
var levelNames = map[uint64]string{1: "Critical", 2: "Error", 3: "Warning", 5: "Verbose"}

func (r *eventReader) publisher(name string) evtHandle {
	if p, ok := r.publishers[name]; ok {
		return p
	}
	var p evtHandle
	if n, err := windows.UTF16PtrFromString(name); err == nil {
		// A provider that was uninstalled has no metadata any more.
		p, _ = evtOpen(procEvtOpenPublisherMetadata, 0, uintptr(unsafe.Pointer(n)), 0, 0, 0)
	}
	r.publishers[name] = p
	return p
}

// userData renders the values of an event whose provider has no texts.
func (r *eventReader) userData(h evtHandle) string {
	values, err := r.render(r.user, h)
	if err != nil {
		return ""
	}
	var texts []string
	for i := range values {
		if t := strings.TrimSpace(values[i].text()); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, " ")
}

// bootEvents are what the kernel leaves in the System channel: one for each start,
// written with the time at which the system started.
const bootEvents = `*[System[Provider[@Name='Microsoft-Windows-Kernel-General'] and EventID=12]]`

// maxBoots bounds how many boots are returned.
const maxBoots = 200

// BootTimes takes the current boot from the uptime and earlier ones from the event log, as far
// back as that goes.
func (h *Host) BootTimes(ctx context.Context) ([]time.Time, error) {
	boots := []time.Time{facts.BootTime(h.Now(), windows.DurationSinceBoot())}
	r := &eventReader{query: logs.EventQuery{Channel: "System", NewestFirst: true}, text: bootEvents}
	defer r.Close() //nolint:errcheck // only read
	var err error
	if r.results, err = r.open(); err == nil {
		r.system, err = evtOpen(procEvtCreateRenderContext, 0, 0, evtRenderContextSystem)
	}
	if err != nil {
		// The current boot is known all the same.
		return boots, nil
	}
	for n := 0; len(boots) < maxBoots; n++ {
		t, err := r.nextTime(ctx)
		if err != nil {
			break
		}
		// The newest one is of the current boot. Its time is that of the hardware clock before it
		// was corrected: the uptime is more exact.
		if n > 0 {
			boots = append(boots, t)
		}
	}
	return boots, ctx.Err()
}

// nextTime is Next without rendering the message.
func (r *eventReader) nextTime(ctx context.Context) (time.Time, error) {
	h, err := r.fetch(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer h.close()
	values, err := r.systemValues(h)
	if err != nil {
		return time.Time{}, err
	}
	return fileTime(values[evtSystemTimeCreated].value), nil
}
