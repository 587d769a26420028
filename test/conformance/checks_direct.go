// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// directChannel is an analytic channel that all Windows have. Each query of WMI is an event there.
const directChannel = "Microsoft-Windows-WMI-Activity/Trace"

// retention is how wevtutil.exe shows whether a channel keeps its oldest events when it is full.
var retention = regexp.MustCompile(`(?m)^\s*retention: (true|false)\s*$`)

// logsOfDirectChannel: an analytic channel, which Windows reads in one order only, has a tail. While
// it is enabled, and to who follows it, it is refused with what to do.
func logsOfDirectChannel(ctx context.Context, h *Host) error {
	config, err := h.run(ctx, "wevtutil.exe gl "+directChannel, nil)
	if err != nil {
		return err
	}
	before := retention.FindStringSubmatch(config)
	switch {
	case before == nil || !strings.Contains(config, "type: Analytic"):
		return fmt.Errorf("wevtutil.exe does not say that %s is an analytic channel:\n%s", directChannel, config)
	case strings.Contains(config, "enabled: true"):
		return fmt.Errorf("somebody else has enabled %s: %w", directChannel, ErrNotThere)
	}
	set := func(properties string) error {
		_, err := h.run(ctx, "wevtutil.exe sl "+directChannel+" /q:true "+properties, nil)
		return err
	}
	if err := set("/e:true /rt:false"); err != nil {
		return err
	}
	request := api.LogRequest{Queries: []string{"eventlog/" + directChannel}, TailLines: new(int64(2)), Output: "json"}
	_, refused := h.logs(ctx, request)
	// What it says matters less than that it is an event.
	_, err = h.powerShell(ctx, "1..3 | ForEach-Object { Get-CimInstance Win32_OperatingSystem | Out-Null }")
	if err := errors.Join(err, set("/e:false"), set("/rt:"+before[1])); err != nil {
		return err
	}
	if refused == nil || !strings.Contains(refused.Error(), "/e:false") {
		return fmt.Errorf("while the channel is enabled, want to be told to disable it: %w", orElse(refused, errors.New("it is read")))
	}
	// The records that Windows itself has last, in its own order.
	out, err := h.powerShell(ctx, "Get-WinEvent -LogName "+directChannel+" -Oldest | Select-Object -Last 2 | ForEach-Object { $_.RecordId }")
	if err != nil {
		return err
	}
	lines, err := h.logs(ctx, request)
	if err != nil {
		return err
	}
	var records []string
	for _, line := range lines {
		var record struct{ RecordID uint64 }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			return fmt.Errorf("record %q: %w", line, err)
		}
		records = append(records, strconv.FormatUint(record.RecordID, 10))
	}
	if want := strings.Fields(out); len(want) != 2 || want[0] == want[1] || !slices.Equal(records, want) {
		return fmt.Errorf("the last records are %q, want %q, which differ", records, want)
	}
	request.Follow = true
	if _, err := h.logs(ctx, request); err == nil || !strings.Contains(err.Error(), "without following") {
		return fmt.Errorf("who follows the channel is to be refused: %w", orElse(err, errors.New("it is followed")))
	}
	return nil
}
