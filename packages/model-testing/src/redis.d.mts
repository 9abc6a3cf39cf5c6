/** Whether Debian's redis-server is here. */
export declare function hasRedis(): boolean;

/** A Redis of its own, once it listens, with nothing on the disk. */
export declare function startRedis(args?: readonly string[]): Promise<{
  readonly url: string;
  /** The lines that redis-cli prints. */
  ask(...words: readonly string[]): readonly string[];
  stop(): Promise<void>;
}>;

/** A port of the loopback on which nothing listens. */
export declare function freePort(): Promise<number>;
