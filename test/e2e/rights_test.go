// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
)

// checkRights says which rights that the manifests give to our programs no test has had them use,
// for who wants to take them away, and returns an error when our programs were refused something.
// It is asked when all tests are over.
func checkRights(ctx context.Context) error {
	unused, refused, err := sys.Rights(ctx)
	if err != nil {
		return err
	}
	if flag.Lookup("test.run").Value.String() == "" { // else it says nothing
		fmt.Fprintf(os.Stderr, "rights that were not used: %d\n", len(unused))
		for _, right := range unused {
			fmt.Fprintf(os.Stderr, "  %s\n", right)
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("our programs were refused: %s", refused)
	}
	return nil
}
