// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// commandLine is that of the service, as far as the stand-in looks at it. Paths are those
// of Windows.
type commandLine struct {
	program, logFile                                 string
	config, kubeconfig, bootstrapKubeconfig, certDir string
	nodeLabels                                       map[string]string
	hostnameOverride, nodeIP, cloudProvider          string
}

// ignored are the flags that change nothing here. Every other one is a mistake, as it is
// to a kubelet.
var ignored = []string{
	"windows-service", "windows-priorityclass", "v", "cloud-config",
	"image-credential-provider-bin-dir", "image-credential-provider-config",
}

// parseCommandLine reads what the service control manager starts: the kubelet itself, or
// kube-log-runner with the command line of the kubelet behind its own flags, which have a
// single dash.
func parseCommandLine(line string) (*commandLine, error) {
	words := splitWords(line)
	c := &commandLine{nodeLabels: map[string]string{}}
	var errs []error
	for _, word := range words {
		name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case !strings.HasPrefix(word, "-"):
			c.program = word // the last one is that of the kubelet
		case !strings.HasPrefix(word, "--"):
			if name == "log-file" {
				c.logFile = value
			}
		case name == "node-labels":
			for label := range strings.SplitSeq(value, ",") {
				key, v, _ := strings.Cut(label, "=")
				c.nodeLabels[key] = v
			}
		case !slices.Contains(ignored, name):
			target, known := map[string]*string{
				"config": &c.config, "kubeconfig": &c.kubeconfig, "bootstrap-kubeconfig": &c.bootstrapKubeconfig, "cert-dir": &c.certDir,
				"hostname-override": &c.hostnameOverride, "node-ip": &c.nodeIP, "cloud-provider": &c.cloudProvider,
			}[name]
			if !known {
				errs = append(errs, fmt.Errorf("unknown flag: %s", word))
				continue
			}
			*target = value
		}
	}
	for _, required := range []struct{ flag, value string }{
		{"config", c.config}, {"kubeconfig", c.kubeconfig}, {"cert-dir", c.certDir},
	} {
		if required.value == "" {
			errs = append(errs, fmt.Errorf("there is no flag --%s", required.flag))
		}
	}
	return c, errors.Join(errs...)
}

// splitWords splits a command line as programs of Windows do (CommandLineToArgvW).
func splitWords(line string) []string {
	var (
		words        []string
		word         strings.Builder
		quoted, some bool
		backslashes  int
	)
	flush := func(n int) { word.WriteString(strings.Repeat(`\`, n)); backslashes = 0 }
	for _, c := range []byte(line) {
		switch {
		case c == '\\':
			backslashes++
			some = true
		case c == '"':
			// Backslashes are special only before a quote.
			literal := backslashes%2 == 1
			flush(backslashes / 2)
			if some = true; literal {
				word.WriteByte('"')
			} else {
				quoted = !quoted
			}
		case (c == ' ' || c == '\t') && !quoted:
			if flush(backslashes); some {
				words = append(words, word.String())
			}
			word.Reset()
			some = false
		default:
			flush(backslashes)
			word.WriteByte(c)
			some = true
		}
	}
	if flush(backslashes); some {
		words = append(words, word.String())
	}
	return words
}
