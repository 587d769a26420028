// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Command cases runs the cases of one kind, which say what existing systems do with
// an input, through the code of this project:
//
//	go run ./test/cases KIND < FILE
//
// KIND is the name of a case file without ".json"; without KIND the kinds are
// listed. For each case one line is printed, a JSON object with its id and either
// output or error. Cases without an id are called by where they stand in the file.
// What runs is what the programs of this project call. Where they have no such behavior,
// nothing is computed: one line says of the kind, or of the member of its file, what is missing.
// DNS is not used: the only name that resolves is localhost, to 127.0.0.1.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// result is what this project makes of one case.
type result struct {
	ID     string `json:"id"`
	Output any    `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
	// Entries says what is wrong with single entries of a case that has others that
	// can be used.
	Entries map[string]string `json:"entries,omitempty"`
	// Skipped says why a case is none for this project.
	Skipped string `json:"skipped,omitempty"`
	// Missing says which behavior of the case no program of this project has.
	Missing string `json:"missing,omitempty"`
}

// kinds maps each kind of case to what runs a file of it.
var kinds = map[string]func(file []byte) ([]result, error){
	"windows-instances-parse": eachCase(parseInstances),
	"platform-facts":          platformFacts,
	"controller-decisions":    controllerDecisions,
	"cluster-config":          clusterConfig,

	"csr-content":                eachCase(csrContent),
	"csr-parse":                  eachCase(csrParse),
	"csr-nodename":               eachCase(csrNodeName),
	"services-manifest":          servicesManifest,
	"wicd-variable-substitution": wicd,
	"windows-layer":              windowsLayer,
	"kubelet-config":             eachCase(kubeletConfig),
	"bootstrap-kubeconfig":       eachCase(bootstrapKubeconfig),
	"hosts-toml":                 eachCase(hostsTOML),
	"mirror-prefix":              eachCase(mirrorPrefix),
	"ignition-kubelet-args":      eachCase(ignitionKubeletArgs),
	"ignition-files":             eachCase(ignitionFiles),
	"ca-bundle":                  eachCase(registryAuthorities),
	"userdata":                   eachCase(userDataOf),
	"pubkey-hash":                eachCase(publicKeyHashOf),
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cases KIND < FILE\nkinds:", strings.Join(slices.Sorted(maps.Keys(kinds)), " "))
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(1)
	}
}

func run(kind string, in io.Reader, out io.Writer) error {
	runFile, ok := kinds[kind]
	if reason, isMissing := missing[kind]; isMissing {
		runFile = func([]byte) ([]result, error) { return []result{{ID: kind, Missing: reason}}, nil }
	} else if !ok {
		return fmt.Errorf("kind %q is not known", kind)
	}
	file, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read cases: %w", err)
	}
	results, err := runFile(file)
	if err != nil {
		return fmt.Errorf("kind %s: %w", kind, err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}

// eachCase runs a file that is a list of cases.
func eachCase[T any](runCase func(T) result) func([]byte) ([]result, error) {
	return func(file []byte) ([]result, error) {
		var raw []json.RawMessage
		if err := json.Unmarshal(file, &raw); err != nil {
			return nil, fmt.Errorf("the file is no list of cases: %w", err)
		}
		results := make([]result, len(raw))
		for i, text := range raw {
			var head struct {
				ID string `json:"id"`
			}
			var input T
			if err := json.Unmarshal(text, &head); err != nil {
				return nil, fmt.Errorf("case %d: %w", i, err)
			}
			if err := json.Unmarshal(text, &input); err != nil {
				return nil, fmt.Errorf("case %d (%s): %w", i, head.ID, err)
			}
			results[i] = runCase(input)
			results[i].ID = head.ID
		}
		return results, nil
	}
}

// outcome is the result of a function that returns an output or an error.
func outcome[T any](output T, err error) result {
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Output: output}
}
